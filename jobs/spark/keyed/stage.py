"""The function of a stage for `applyInPandasWithState`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from jobs.spark.keyed.arrow import check_release, install
from jobs.spark.keyed.state import KeyState
from quota.errors import MutationQuotaError

AnswerRows = Callable[[str, Iterable[bytes], KeyState], Iterator[bytes]]
"""Returns the answers to the rows of a key, and may update its state."""


class KeyedStage:
    """Answers the rows of each key without pandas.

    Use it as `applyInPandasWithState(stage, ..., GroupStateTimeout.NoTimeout)`, on a frame whose grouping column is a
    string and whose last column has the rows.
    """

    def __init__(self, answer: AnswerRows, output: str, max_rows: int) -> None:
        """Create a stage.

        Args:
            max_rows: `spark.sql.execution.arrow.maxRecordsPerBatch`; 0 for no limit.
        """
        check_release()
        self.answer = answer
        self.output = output
        self.max_rows = max_rows

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the stage in a worker, right before PySpark wraps this function for its task."""
        self.__dict__.update(state)
        check_release()
        install(_wrapped_stage)

    def __call__(self, *_: object) -> NoReturn:
        """Refuse to be called by PySpark itself, with pandas frames."""
        raise MutationQuotaError(
            "PySpark has wrapped the stage in another function, so it cannot run: remove spark.python.profile, "
            "spark.sql.pyspark.udf.profiler and spark.python.use.daemon from the settings of Spark"
        )


def _wrapped_stage(function: object) -> KeyedStage | None:
    """Return the stage that PySpark has wrapped in its own function (`fail_on_stopiteration`); None for others."""
    for cell in getattr(function, "__closure__", None) or ():
        if isinstance(cell.cell_contents, KeyedStage):
            return cell.cell_contents
    return None
