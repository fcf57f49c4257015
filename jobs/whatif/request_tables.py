"""Converts a file of requests to rows of the audit's tables: the cluster's responses, or the decisions of quotas."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.rows import dead_letter_rows, decision_rows
from jobs.audit.tables.specs import DEAD_LETTERS, DECISIONS, QUOTA_CHANGES, TableSpec
from jobs.whatif.request_file import open_lines
from quota.admission.policy import Policy
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, ErrorCode
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision, Outcome
from quota.settings import Settings
from quota.whatif.simulation import simulate
from schemas.kafka import RECORD

_ROWS = 10_000
_RECORD = to_arrow_schema(RECORD)


@contextmanager
def request_tables(
    settings: Settings, file: str, quotas: CallbackTimeline | None
) -> Iterator[Mapping[str, ds.Dataset]]:
    """Provide the rows of the audit's tables for a file's requests, in a temporary folder.

    Without quotas, the cluster's responses in the output of `observe import` decide them.
    """
    algorithm = TokenBucket(settings.quota.window, Policy.of(settings).deduplication)
    with TemporaryDirectory(prefix="mutation-quota-") as name, open_lines(file) as lines:
        writers = {table: _Parts(Path(name) / table.name, table) for table in (DECISIONS, DEAD_LETTERS, QUOTA_CHANGES)}
        topic = settings.topics.requests
        answers = simulate(lines, quotas or CallbackTimeline(), algorithm, topic, Policy.of(settings))
        decided = _write(answers, writers, enforced=quotas is not None)
        if not decided:
            raise BadInput(f"{file}: no line is a request")
        yield {table.name: parts.dataset() for table, parts in writers.items()}


def _write(answers: Iterable[Decision | DeadLetter], writers: Mapping[TableSpec, "_Parts"], *, enforced: bool) -> int:
    """Write decisions and dead letters as rows; return the number of decisions."""
    decided = 0
    for answer in answers:
        if isinstance(answer, DeadLetter):
            writers[DEAD_LETTERS].add(answer, answer.timestamp or 0)
        else:
            decided += 1
            took = answer.observed.took_ms if answer.observed else 0
            writers[DECISIONS].add(as_enforced(answer) if enforced else as_answered(answer), answer.timestamp + took)
    for writer in writers.values():
        writer.close()
    return decided


class _Parts:
    """The rows of one table, in Parquet files."""

    def __init__(self, folder: Path, table: TableSpec) -> None:
        folder.mkdir()
        self._folder = folder
        self._schema = to_arrow_schema(table.schema, timezone="UTC")
        self._to_rows = decision_rows if table is DECISIONS else dead_letter_rows
        self._records: list[dict[str, object]] = []
        self._count = 0

    def add(self, answer: Decision | DeadLetter, at: int) -> None:
        source = msgspec.structs.asdict(answer.source)
        self._records.append({**source, "timestamp": at, "key": None, "value": codec.encode(answer)})
        if len(self._records) == _ROWS:
            self._write()

    def close(self) -> None:
        if self._records:
            self._write()

    def dataset(self) -> ds.Dataset:
        return ds.dataset(self._folder, self._schema, format="parquet")

    def _write(self) -> None:
        rows = self._to_rows(pa.RecordBatch.from_pylist(self._records, _RECORD)).own
        pq.write_table(rows, self._folder / f"{self._count:06}.parquet")
        self._records = []
        self._count += 1


_NAMES = {code.value: code.name for code in ErrorCode}


def as_answered(decision: Decision) -> Decision:
    """Return a decision with the cluster's answer, if its request was observed.

    Without a quota, buckets are not shared: each sender (user and client-id) has its own tags.
    """
    observed = decision.observed
    if decision.quota is None:
        decision = msgspec.structs.replace(decision, user_tag=decision.user, client_tag=decision.client_id)
    return decision if observed is None else _with_answer(decision, observed.error_codes, observed.throttle_time_ms)


def as_enforced(decision: Decision) -> Decision:
    """Return a decision with the answer that its quota would have given if it were not in shadow."""
    shadow = decision.shadow
    return decision if shadow is None else _with_answer(decision, shadow.error_codes, shadow.throttle_time_ms)


def _with_answer(decision: Decision, codes: Sequence[int], throttle_ms: int) -> Decision:
    topics = [
        msgspec.structs.replace(topic, error_code=code, error=_NAMES.get(code, str(code)))
        for topic, code in zip(decision.topics, codes, strict=True)
    ]
    return msgspec.structs.replace(
        decision,
        outcome=Outcome.of([not code for code in codes]),
        topics=topics,
        throttle_time_ms=throttle_ms,
        retry_at=decision.timestamp + throttle_ms,
        shadow=None,
    )
