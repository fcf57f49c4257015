"""One run of a log through the query: how its partitions are cut into batches, and what must not change answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.reference.log import Log, Row


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a log: the cuts of its partitions into batches, and settings that must not change the answers."""

    cuts: Sequence[float] = ()
    """Positions of the cuts, as shares of a partition; there is one batch more than cuts."""
    state_partitions: int = 2
    batch_rows: int = 1000
    """Rows in each record batch that Python receives."""
    arrival: int = 0
    """Seed of the order in which a batch's rows arrive, and of their tasks."""
    restart_after: int | None = None
    """The batch after which the query restarts from its checkpoint."""
    crash: bool = False
    """Whether that batch is not committed, so that it is processed again."""
    knows_all: bool = True
    """Whether all quota changes are known from the beginning, or each no sooner than necessary."""

    def batches(self, log: Log) -> list[list[Row]]:
        """Return the log's rows batch by batch; each partition continues where it was cut."""
        by_partition: dict[int, list[Row]] = {}
        for row in log.rows():
            by_partition.setdefault(row[1], []).append(row)
        count = len(self.cuts) + 1
        found: list[list[Row]] = [[] for _ in range(count)]
        for number, rows in enumerate(by_partition.values()):
            # Kafka's batches do not cut all partitions at the same share either.
            shares = sorted((share + number * 0.37) % 1 for share in self.cuts)
            ends = [0, *(round(share * len(rows)) for share in shares), len(rows)]
            for batch, (start, end) in zip(found, pairwise(ends), strict=True):
                batch.extend(rows[start:end])
        return [batch for batch in found if batch]
