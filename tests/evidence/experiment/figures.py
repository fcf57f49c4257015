"""The figures of the experiment: times of a tenant's creates, and the scale of the storm."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from jobs.whatif.capacity import Throughput
from tests.evidence.percentiles import percentile

IN_A_ROW = 3
"""Number of successive creates, as quick as before the storm, after which the cluster has caught up."""

REST_SECONDS = 3.0
"""Seconds of rest before each phase, so that no create of the baseline waits for the storm."""

_FDS_PER_PARTITION = 1
_MAPS_PER_PARTITION = 2
_BYTES_PER_PARTITION = 64 * 1024
_SHARE = 0.8
"""Resources of an empty partition as measured on the embedded broker, memory rounded up; a fifth stays free."""


@dataclass(frozen=True, slots=True)
class Create:
    """A tenant's create of one topic; times in seconds since the storm began, None if it did not occur."""

    due: float
    answered: float | None
    """Time when the create succeeded."""
    usable: float | None
    """Time when the topic's first record was acknowledged."""

    @property
    def seconds_to_answer(self) -> float | None:
        """Time from the due time, so that a late start counts as well."""
        return None if self.answered is None else self.answered - self.due

    @property
    def seconds_to_use(self) -> float | None:
        """Time from the due time until the topic accepted a record."""
        return None if self.usable is None else self.usable - self.due


@dataclass(frozen=True, slots=True)
class Settled:
    """One topic of the storm with its outcome."""

    at: float
    """Seconds since the storm began."""
    name: str
    error: str | None
    refused: bool
    """Whether the quota still refused it at the time limit."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The creation or the deletion of the storm's topics; times in seconds since the storm began."""

    begun: float
    settled: tuple[Settled, ...]
    caught_up: float | None
    """Time when the cluster had caught up; None if it had not in time."""
    ended: float

    @property
    def answered(self) -> float:
        """Time of the cluster's last answer."""
        return last_answer(self.settled, self.begun)


@dataclass(frozen=True, slots=True)
class Arm:
    """The experiment without a quota, or with one."""

    name: str
    creates: dict[str, tuple[Create, ...]]
    """Creates by tenant, from the baseline on."""
    creation: Phase
    deletion: Phase


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of times in seconds; percentiles are None if there are no times."""

    count: int
    failed: int
    p50: float | None
    p99: float | None
    largest: float | None


@dataclass(frozen=True, slots=True)
class Room:
    """Resources that a machine has for the embedded broker; None if unknown."""

    file_descriptors: int | None
    memory_maps: int | None
    memory_bytes: int | None


def summary(times: Iterable[float | None]) -> Summary:
    """Return the summary of times, in which None is a failure."""
    every = list(times)
    known = [each for each in every if each is not None]
    if not known:
        return Summary(len(every), len(every), None, None, None)
    return Summary(len(every), len(every) - len(known), percentile(known, 0.5), percentile(known, 0.99), max(known))


def done(settled: Iterable[Settled]) -> frozenset[str]:
    """Return the topics that were created, or deleted."""
    return frozenset(each.name for each in settled if each.error is None)


def last_answer(settled: Iterable[Settled], begun: float) -> float:
    """Return the time of the last success."""
    return max((each.at for each in settled if each.error is None), default=begun)


def between(creates: Iterable[Create], begun: float, ended: float) -> list[Create]:
    """Return the creates that were due in an interval."""
    return [each for each in creates if begun <= each.due < ended]


def back_to_normal(creates: Iterable[Create], since: float, usual: float) -> float | None:
    """Return when the first of `IN_A_ROW` successive creates since then was usable, each within `usual` seconds."""
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
    """Return mutations/s until the cluster had caught up, or until the end of the phase if it had not."""
    return mutations / ((phase.ended if phase.caught_up is None else phase.caught_up) - phase.begun)


def throughput(arm: Arm, partitions: int) -> Throughput:
    """Return the throughput of a storm whose topics have `partitions` partitions."""
    created, deleted = (rate_of(len(done(phase.settled)) * partitions, phase) for phase in (arm.creation, arm.deletion))
    return Throughput(created, deleted)


def quota_for(mutations: int, creation: Phase) -> float:
    """Return a quota from the observed throughput: a quarter of its rate, in two digits, at least 1.

    KIP-599's own advice: find the actual limit first, and leave room for the rest of the load.
    """
    rate = max(1.0, rate_of(mutations, creation) / 4)
    digit = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return max(1.0, math.floor(rate / digit + 1e-9) * digit)


def scale_factor(partitions: int, others: int, room: Room) -> int:
    """Return the divisor of a storm's partitions with which the broker can hold it and `others`."""
    bounds = (
        (room.file_descriptors, _FDS_PER_PARTITION),
        (room.memory_maps, _MAPS_PER_PARTITION),
        (room.memory_bytes, _BYTES_PER_PARTITION),
    )
    fits = min((_SHARE * there / each for there, each in bounds if there is not None), default=math.inf)
    return max(1, math.ceil(partitions / max(fits - others, 1)))
