"""The function of a stage for `applyInPandasWithState`."""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.streaming.state import GroupState

from jobs.spark.keyed.arrow import BATCH_BYTES, has_known_release, install
from jobs.spark.keyed.state import KeyState

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

AnswerRows = Callable[[str, Iterable[bytes], KeyState], Iterator[bytes]]
"""Returns the answers to the rows of a key, and may update its state."""


class KeyedStage:
    """Answers the rows of each key, without pandas if possible.

    Use it as `applyInPandasWithState(stage, ..., GroupStateTimeout.NoTimeout)`, on a frame whose grouping column is a
    string and whose last column has the rows.
    """

    def __init__(self, answer: AnswerRows, output: str, max_rows: int, *, through_pandas: bool = False) -> None:
        """Create a stage.

        Args:
            answer: returns the answers to the rows of a key.
            output: the name of the output column.
            max_rows: `spark.sql.execution.arrow.maxRecordsPerBatch`; 0 for no limit.
            through_pandas: whether to use PySpark's conversion to pandas.
        """
        self.answer = answer
        self.output = output
        self.max_rows = max_rows
        self._through_pandas = through_pandas
        self._held_bytes = 0
        if not through_pandas and not has_known_release():
            _log.warning(
                "PySpark %s is not supported by this release without pandas: a stage uses pandas, which is slower",
                pyspark.__version__,
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the stage in a worker, right before PySpark wraps this function for its task."""
        self.__dict__.update(state)
        if self._uses_arrow:
            install(_wrapped_stage)

    @property
    def _uses_arrow(self) -> bool:
        return not self._through_pandas and has_known_release()

    def __call__(
        self, group: tuple[str], frames: Iterable["pd.DataFrame"], state: GroupState
    ) -> Iterator["pd.DataFrame"]:
        """Answer the rows of a key with pandas.

        PySpark collects the frames of all keys of a task until they have more than `max_rows` rows, of any size.
        A large frame is therefore padded with as many empty rows, which makes PySpark send all collected frames.
        """
        held: list[bytes | None] = []
        for answer in self.answer(group[0], chain.from_iterable(frame.iloc[:, -1] for frame in frames), state):
            held.append(answer)
            self._held_bytes += len(answer)
            if self._held_bytes >= BATCH_BYTES:
                yield self._frame([*held, *[None] * self.max_rows])
                held, self._held_bytes = [], 0
        if held:
            yield self._frame(held)

    def _frame(self, answers: list[bytes | None]) -> "pd.DataFrame":
        """Return a frame in less than half of the time that pandas needs with type inference."""
        # These imports take a quarter of a second of each worker's start, and are needed only here.
        import numpy as np  # noqa: PLC0415
        import pandas as pd  # noqa: PLC0415

        column = np.empty((len(answers), 1), dtype=object)
        column[:, 0] = answers
        return pd.DataFrame(column, columns=pd.Index([self.output]), copy=False)


def _wrapped_stage(function: object) -> KeyedStage | None:
    """Return the stage that PySpark has wrapped in its own function (`fail_on_stopiteration`).

    With a profiler there is another function in between; the stage is not found then, and uses pandas.
    """
    for cell in getattr(function, "__closure__", None) or ():
        stage = cell.cell_contents
        if isinstance(stage, KeyedStage):
            return stage if stage._uses_arrow else None  # noqa: SLF001 this module's own
    return None
