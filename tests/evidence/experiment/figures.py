"""The figures of the experiment: what is counted of a tenant's creates, and how far the storm has to be scaled down."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.whatif.capacity import Throughput

IN_A_ROW = 3
"""So many creates one after the other as quick as before the storm say that the cluster has caught up."""

REST_SECONDS = 3.0
"""Before each phase, for what was begun before it: no create of the baseline stands behind the storm."""

_FDS_PER_PARTITION = 1
_MAPS_PER_PARTITION = 2
_BYTES_PER_PARTITION = 64 * 1024
_SHARE = 0.8
"""What an empty partition was measured to take of the embedded broker, memory rounded up; a fifth is left over."""


@dataclass(frozen=True, slots=True)
class Create:
    """A tenant's create of one topic; seconds since the storm began, None for what did not come."""

    due: float
    answered: float | None
    """The create itself has succeeded."""
    usable: float | None
    """The topic's first record is acknowledged."""

    @property
    def seconds_to_answer(self) -> float | None:
        """From when it was due, so that a late start counts as well."""
        return None if self.answered is None else self.answered - self.due

    @property
    def seconds_to_use(self) -> float | None:
        """Likewise, until the topic took a record."""
        return None if self.usable is None else self.usable - self.due


@dataclass(frozen=True, slots=True)
class Settled:
    """One topic of the storm, when it is clear what became of it."""

    at: float
    """Seconds since the storm began."""
    name: str
    error: str | None
    refused: bool
    """By the quota, at the time limit."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The creation or the deletion of the storm's topics; times in seconds since the storm began."""

    begun: float
    settled: tuple[Settled, ...]
    caught_up: float | None
    """When the cluster had caught up; None if it had not in time."""
    ended: float

    @property
    def answered(self) -> float:
        """When the cluster had answered the last of it."""
        return last_answer(self.settled, self.begun)


@dataclass(frozen=True, slots=True)
class Arm:
    """The experiment without a quota, or with one."""

    name: str
    creates: dict[str, tuple[Create, ...]]
    """By tenant, from the baseline on."""
    creation: Phase
    deletion: Phase


@dataclass(frozen=True, slots=True)
class Summary:
    """Of times in seconds; percentiles are None where there are no times."""

    count: int
    failed: int
    p50: float | None
    p99: float | None
    largest: float | None


@dataclass(frozen=True, slots=True)
class Room:
    """What a machine leaves to the embedded broker; None where it does not tell."""

    file_descriptors: int | None
    memory_maps: int | None
    memory_bytes: int | None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def summary(times: Iterable[float | None]) -> Summary:
    """Count, percentiles and the largest; None stands for what failed."""
    every = list(times)
    known = [each for each in every if each is not None]
    if not known:
        return Summary(len(every), len(every), None, None, None)
    return Summary(len(every), len(every) - len(known), percentile(known, 0.5), percentile(known, 0.99), max(known))


def done(settled: Iterable[Settled]) -> frozenset[str]:
    """The topics that were created, or deleted."""
    return frozenset(each.name for each in settled if each.error is None)


def last_answer(settled: Iterable[Settled], begun: float) -> float:
    """When the last of them was done."""
    return max((each.at for each in settled if each.error is None), default=begun)


def between(creates: Iterable[Create], begun: float, ended: float) -> list[Create]:
    """Those that were due in a time."""
    return [each for each in creates if begun <= each.due < ended]


def back_to_normal(creates: Iterable[Create], since: float, usual: float) -> float | None:
    """When the first of `IN_A_ROW` creates that were due since then, each usable within `usual` seconds, was usable."""
    row: list[Create] = []
    for each in sorted(creates, key=lambda create: create.due):
        if each.due < since:
            continue
        seconds = each.seconds_to_use
        row = [*row, each] if seconds is not None and seconds <= usual else []
        if len(row) == IN_A_ROW:
            return row[0].usable
    return None


def rate_of(mutations: int, phase: Phase) -> float:
    """Mutations a second until the cluster had caught up; where it had not, as long as it was looked at."""
    return mutations / ((phase.ended if phase.caught_up is None else phase.caught_up) - phase.begun)


def throughput(arm: Arm, partitions: int) -> Throughput:
    """What the cluster carried out of a storm of topics of so many partitions."""
    created, deleted = (rate_of(len(done(phase.settled)) * partitions, phase) for phase in (arm.creation, arm.deletion))
    return Throughput(created, deleted)


def quota_for(mutations: int, creation: Phase) -> float:
    """A quota for a cluster that was seen to carry a storm out: a quarter of its rate, in two digits, at least 1.

    KIP-599's own advice: find the actual limit first, and leave room for the rest of the load.
    """
    rate = max(1.0, rate_of(mutations, creation) / 4)
    digit = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return max(1.0, math.floor(rate / digit + 1e-9) * digit)


def scale_factor(partitions: int, others: int, room: Room) -> int:
    """By how much a storm of so many partitions has to be divided, so that the broker can hold it and the others."""
    bounds = (
        (room.file_descriptors, _FDS_PER_PARTITION),
        (room.memory_maps, _MAPS_PER_PARTITION),
        (room.memory_bytes, _BYTES_PER_PARTITION),
    )
    fits = min((_SHARE * there / each for there, each in bounds if there is not None), default=math.inf)
    return max(1, math.ceil(partitions / max(fits - others, 1)))
