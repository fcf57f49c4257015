"""Stages for applyInPandasWithState that get Arrow data without PySpark's conversion to pandas.

PySpark converts each key's rows, state and answers to pandas frames, which takes many times as long as the function
itself (docs/decisions/programs/0003-the-enforcing-query.md). Here the rows of a key are a slice of Spark's record
batch, and the answers and states of many keys are one record batch. The data from and to Spark stays the same.

This replaces functions inside PySpark, in Python workers, for a `KeyedStage` only. With a release of PySpark whose
functions are not known, nothing is replaced, and the stage is an ordinary function with pandas frames.
"""

import json
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.serializers import pickle_protocol
from pyspark.sql.streaming.state import GroupState

from quota.errors import MutationQuotaError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

_log = logging.getLogger(__name__)

RELEASE = "4.2.0"
"""The release of PySpark whose functions are replaced.

The version decides, not whether functions look the same: they depend on their callers and on the data from Spark's JVM,
which can change while the replaced functions do not. Only tests with that release show that all of it fits.
"""

BATCH_BYTES = 4 * 1024 * 1024
"""The size at which answers are sent [bytes]."""

_STATE = pa.schema(
    {
        "properties": pa.string(),
        "keyRowAsUnsafe": pa.binary(),
        "object": pa.binary(),
        "oldTimeoutTimestamp": pa.int64(),
    }
)
_COUNTS = ("dataCount", "stateCount")

Value = tuple[Any, ...]
"""A row of the state's schema."""

StateRow = tuple[str | None, bytes | None, bytes | None, int | None]
"""A state that is returned to Spark: properties, key, value, old timeout; all None in padding rows."""


class SentState:
    """The state of a key as sent by Spark, without a timeout; it is decoded on first use."""

    __slots__ = ("_key", "_properties", "_sent", "_updated", "_value")

    def __init__(self, properties: str, key: bytes, sent: bytes | None) -> None:
        """Wrap a state, of which `sent` is the pickled value, None if the key has no state; nothing is decoded yet."""
        self._properties = properties
        self._key = key
        self._sent = sent
        self._value: Value | None = None
        self._updated = False

    @property
    def exists(self) -> bool:
        """Whether the key has a state."""
        return self._updated or (self._sent is not None and _is_defined(self._properties))

    @property
    def get(self) -> Value:
        """The state, if the key has one."""
        if self._value is None:
            if self._sent is None or not self.exists:
                raise ValueError("the key has no state")
            self._value = tuple(pickle.loads(self._sent))  # noqa: S301 Spark returns what this class pickled
        return self._value

    def update(self, newValue: Value) -> None:  # noqa: N803 as in GroupState
        """Replace the state."""
        self._value, self._updated = tuple(newValue), True

    def row(self) -> StateRow:
        """Return the state for Spark, which reads the value only if it was updated."""
        properties, timeout = _returned(self._properties, updated=self._updated)
        value = pickle.dumps(self._value, pickle_protocol) if self._updated else None
        return properties, self._key, value, timeout


KeyState = SentState | GroupState
"""The state of a key: of the project's own stages, or of PySpark."""


@lru_cache(maxsize=64)
def _is_defined(properties: str) -> bool:
    """Return whether a state exists; cached, because the keys of a batch have only two different properties."""
    return bool(json.loads(properties)["defined"])


@lru_cache(maxsize=64)
def _returned(properties: str, *, updated: bool) -> tuple[str, int]:
    """Return the properties of a state after the call, in the format of `GroupState`, and its old timeout."""
    fields = {**json.loads(properties), "optionalValue": None}
    state = GroupState(**fields, keyAsUnsafe=b"", valueSchema=None)  # type: ignore[arg-type]
    if updated:
        state.update(())
    return state.json(), state.oldTimeoutTimestamp


_Chunk = tuple[list[pa.Array], SentState]
"""The columns of some rows of a key, and the key's state."""
_Row = tuple[Any, ...]
"""The values of an answer, in the order of its columns."""
_Result = tuple[Iterable[_Row], SentState]
"""The answers to a key, and its state, which may change until the last answer is consumed."""

AnswerRows = Callable[[str, Iterable[bytes], KeyState], Iterator[_Row]]
"""Returns the answers to the rows of a key, and may update its state."""


class KeyedStage:
    """Answers the rows of each key, without pandas if the release of PySpark is known.

    Use it as `applyInPandasWithState(stage, ..., GroupStateTimeout.NoTimeout)`, on a frame whose grouping column is a
    string and whose last column has the rows. With pandas, the output also has rows of nulls, which are to be removed.
    """

    def __init__(self, answer: AnswerRows, output: pa.Schema, max_rows: int) -> None:
        """Create a stage for answers with these columns, the last one binary; log if it needs pandas.

        `max_rows` is `spark.sql.execution.arrow.maxRecordsPerBatch`, where 0 is no limit.
        """
        self.answer = answer
        self.output = output
        self.max_rows = max_rows
        self.without_pandas = _is_known_release()
        self._held_bytes = 0
        if not self.without_pandas:
            _log.warning(
                "PySpark %s: decisions are the same as with PySpark %s, but the stateful stage needs pandas, which "
                "takes about 0.5 ms for each key of a batch instead of 0.05 ms",
                pyspark.__version__,
                RELEASE,
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the stage in a worker, right before PySpark wraps this function for its task."""
        self.__dict__.update(state)
        if not self.without_pandas:
            return
        if not _is_known_release():
            raise MutationQuotaError(
                f"PySpark {pyspark.__version__} on a node, but {RELEASE} in the driver: install pyspark=={RELEASE}"
            )
        _replace_functions()

    def __call__(
        self, group: tuple[str], frames: Iterable["pd.DataFrame"], state: GroupState
    ) -> Iterator["pd.DataFrame"]:
        """Answer the rows of a key as PySpark calls the function itself, with pandas frames.

        PySpark holds answers of any size until they are more than `max_rows`. So `BATCH_BYTES` of them are followed by
        as many rows of nulls.
        """
        if self.without_pandas:
            raise MutationQuotaError(
                "PySpark has wrapped the stage in another function, so it cannot run: remove spark.python.profile, "
                "spark.sql.pyspark.udf.profiler and spark.python.use.daemon from the settings of Spark"
            )
        import pandas as pd  # noqa: PLC0415 a quarter of a second of each worker's start

        rows = chain.from_iterable(frame.iloc[:, -1] for frame in frames)
        names = self.output.names
        answers: list[_Row] = []
        for answer in self.answer(group[0], rows, state):
            answers.append(answer)
            self._held_bytes += len(answer[-1])
            if self._held_bytes >= BATCH_BYTES:
                yield pd.DataFrame([*answers, *[(None,) * len(names)] * self.max_rows], columns=names)
                answers, self._held_bytes = [], 0
        if answers:
            yield pd.DataFrame(answers, columns=names)


def _is_known_release() -> bool:
    return pyspark.__version__ == RELEASE


def _wrapped_stage(function: object) -> KeyedStage | None:
    """Return the stage that PySpark has wrapped in its own function (`fail_on_stopiteration`); None for others."""
    for cell in getattr(function, "__closure__", None) or ():
        stage = cell.cell_contents
        if isinstance(stage, KeyedStage) and stage.without_pandas:
            return stage
    return None


@cache
def _replace_functions() -> None:
    """Replace PySpark's functions in this process; other stages still use the original functions."""
    # Other releases do not have all of these, and only workers have the first.
    from pyspark import worker  # noqa: PLC0415
    from pyspark.sql.pandas.serializers import (  # noqa: PLC0415
        ApplyInPandasWithStateSerializer,
        ArrowStreamSerializer,
    )

    serializer: Any = ApplyInPandasWithStateSerializer
    module: Any = worker
    wrap, load, dump = module.wrap_grouped_map_pandas_udf_with_state, serializer.load_stream, serializer.dump_stream
    current: KeyedStage | None = None  # a worker runs one task after another, and wraps before it loads

    def wrap_stage(function: object, *more: object) -> object:
        nonlocal current
        current = stage = _wrapped_stage(function)
        return wrap(function, *more) if stage is None else _answers_of(stage)

    def load_stream(self: "ArrowStreamSerializer", stream: IO[bytes]) -> object:
        if current is None:
            return load(self, stream)
        return load_keys(ArrowStreamSerializer.load_stream(self, stream))

    def dump_stream(self: "ArrowStreamSerializer", results: Iterable[Any], stream: IO[bytes]) -> None:
        if current is None:
            dump(self, results, stream)
        else:
            batches = self._write_stream_start(record_batches(results, current.output, current.max_rows), stream)
            ArrowStreamSerializer.dump_stream(self, batches, stream)

    module.wrap_grouped_map_pandas_udf_with_state = wrap_stage
    serializer.load_stream, serializer.dump_stream = load_stream, dump_stream


def _answers_of(stage: KeyedStage) -> Callable[..., _Result]:
    """Return the function that PySpark calls for each key with grouping columns, columns of chunks, and the state."""

    def given(key: str, rows: Iterable[bytes], state: SentState) -> Iterator[_Row]:
        yield from stage.answer(key, rows, state)  # in a generator, a StopIteration does not silently end the stream

    def answers(group: list[pa.Array], chunks: Iterable[list[pa.Array]], state: SentState) -> _Result:
        rows = chain.from_iterable(columns[-1].to_pylist() for columns in chunks)
        return given(group[0][0].as_py(), rows, state), state

    return answers


def load_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Iterator[_Chunk], SentState]]:
    """Yield the chunks and the state of each key; the chunks of a key are consecutive."""
    for state, chunks in groupby(_chunks(batches), itemgetter(1)):
        yield chunks, state


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[_Chunk]:
    unfinished: SentState | None = None
    for batch in batches:
        *columns, infos = batch.columns
        properties, keys, values, starts, counts, ends = infos.flatten()
        chunks = zip(*(column.to_pylist() for column in (properties, starts, counts, ends)), strict=True)
        for index, (text, start, count, is_last) in enumerate(chunks):
            if text is None:  # the record batch has more rows than chunks
                break
            state = unfinished or SentState(text, keys[index].as_py(), values[index].as_py())
            unfinished = None if is_last else state
            yield [column.slice(start, count) for column in columns], state


def record_batches(results: Iterable[_Result], output: pa.Schema, max_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the answers and the states of keys in the form that Spark expects; `max_rows` is 0 for no limit."""
    answers: list[_Row] = []
    states: list[StateRow] = []
    size = 0
    for given, state in results:
        for answer in given:
            answers.append(answer)
            size += len(answer[-1])
            if size >= BATCH_BYTES or len(answers) == max_rows:
                yield _record_batch(answers, states, output)
                answers, states, size = [], [], 0
        states.append(state.row())
    if answers or states:
        yield _record_batch(answers, states, output)


def _record_batch(answers: list[_Row], states: list[StateRow], output: pa.Schema) -> pa.RecordBatch:
    """Return counts, answers and states, each padded to the same length."""
    length = max(1, len(answers), len(states))
    counts = [pa.array(np.full(length, len(rows), np.int32)) for rows in (answers, states)]
    parts = [
        pa.StructArray.from_arrays(counts, _COUNTS),
        _padded(answers, output, length),
        _padded(states, _STATE, length),
    ]
    return pa.RecordBatch.from_arrays(parts, ["_0", "_1", "_2"])


def _padded(rows: Sequence[_Row], schema: pa.Schema, length: int) -> pa.StructArray:
    """Return rows as an array of structs; Spark skips those that fill it up to its length."""
    filled = [*rows, *[(None,) * len(schema)] * (length - len(rows))]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*filled, strict=True), schema.types, strict=True)]
    return pa.StructArray.from_arrays(columns, schema.names)
