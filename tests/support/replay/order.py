"""The orders in which requests of a log must be decided."""

from collections.abc import Iterable, Sequence

from tests.support.reference.log import Entry, Log
from tests.support.reference.model import Reference, Tags


def in_partition_order(log: Log) -> list[tuple[int, Entry]]:
    """Return requests with their offsets as written: the order of buckets whose requests share a partition."""
    return [(offset, entry) for offset, entry in log.placed() if entry.request is not None]


def in_guaranteed_order(log: Log, batches: Sequence[Iterable[tuple[int, int]]]) -> list[tuple[int, Entry]]:
    """Return requests with their offsets in the order of buckets whose requests are in several partitions.

    Batch after batch; in a batch by the highest timestamp of the partition so far among the bucket's requests of that
    batch, then by partition, then by offset.
    """
    reference = Reference(log)
    entries = {(entry.partition, offset): entry for offset, entry in log.placed()}
    ordered: list[tuple[int, Entry]] = []
    for batch in batches:
        highest: dict[tuple[Tags | None, int], int] = {}
        keyed = []
        for partition, offset in sorted(batch):
            entry = entries[partition, offset]
            if entry.request is None:
                continue
            source = reference.bucket_of(entry), partition
            highest[source] = max(entry.timestamp, highest.get(source, entry.timestamp))
            keyed.append((highest[source], partition, offset))
        ordered += [(offset, entries[partition, offset]) for _, partition, offset in sorted(keyed)]
    return ordered
