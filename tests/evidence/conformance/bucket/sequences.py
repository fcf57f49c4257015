"""Long random sequences of requests and quota changes, from a seed, biased towards cases in which buckets differ."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quota.records.quota_log import Window
from quota.records.request import Mode

START = 1_700_000_000_000
"""Start of the sequences, epoch ms. Kafka's buckets fill from 1970 on, so they are full at this time."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """A wait of the last try's throttle time and `more` ms."""

    more: int = 0

    def __str__(self) -> str:
        return f"throttle{self.more:+d}"


@dataclass(frozen=True, slots=True)
class Try:
    """A request `wait` ms after the previous step (negative: a step back in time), with a cost for each topic."""

    wait: int | Throttle
    mode: Mode
    costs: tuple[int, ...]

    def __str__(self) -> str:
        return f"try {self.wait} {self.mode.value.lower()} {' '.join(map(str, self.costs))}"


@dataclass(frozen=True, slots=True)
class Change:
    """A quota (mutations/s) from `wait` ms after the previous step on; a rate of None removes it."""

    wait: int
    rate: float | None

    def __str__(self) -> str:
        rate = "none" if self.rate is None else repr(self.rate)
        return f"quota {self.wait} {_JAVA.get(rate, rate)}"


@dataclass(frozen=True, slots=True)
class Expire:
    """Kafka's removal of sensors without a record for an hour, `wait` ms after the previous step."""

    wait: int

    def __str__(self) -> str:
        return f"expire {self.wait}"


_JAVA = {"nan": "NaN", "inf": "Infinity"}
"""Java's names of floats that Python writes differently."""

Step = Try | Change | Expire


@dataclass(frozen=True, slots=True)
class Sequence:
    """Steps of one bucket; the first sets its quota."""

    window: Window
    steps: tuple[Step, ...]


_STEPS = (50, 400)
_LARGEST_COST = 1_000_000_000
_WINDOWS = [Window(), Window(1, 1), Window(2, 1), Window(11, 5), Window(100, 1), Window(10, 2), Window(3600, 1)]
_RATES = [0.001, 0.1, 1 / 3, 0.7, 1.0, 2.5, 3.0, 5.0, 10.0, 1000.0, 1e6]
_OLD, _STEP_BACK, _THROTTLE, _CHANGE, _HUGE = 0.3, 0.06, 0.15, 0.03, 0.01


def sequences(seed: int, count: int) -> Iterator[Sequence]:
    """Yield `count` sequences, each determined by the seed and its number."""
    for number in range(count):
        yield random_sequence(random.Random(f"{seed}-{number}"))


def random_sequence(chance: random.Random) -> Sequence:
    """Return a sequence with costs and times in proportion to its quota, so that the bucket is nearly empty."""
    window = chance.choice([*_WINDOWS, Window(chance.randint(1, 500), chance.randint(1, 60))])
    rate = _rate(chance)
    steps: list[Step] = [Change(0, rate)]
    old = chance.choice([0.0, 1.0, _OLD])  # sequences of new clients, of old ones, of both
    steady = chance.random() < 1 / 4  # a quarter without changes, and without steps back
    for _ in range(chance.randint(*_STEPS)):
        # Kafka applies two changes without a use between them both; the project only the last (differences.py).
        if not steady and chance.random() < _CHANGE and isinstance(steps[-1], Try):
            rate = rate * chance.choice([0.5, 2.0, 10.0, 0.01]) if chance.random() < 1 / 2 else _rate(chance)
            rate = min(max(rate, _RATES[0]), _RATES[-1])
            steps.append(Change(_gap(chance, rate, window), rate))
            continue
        mode = Mode.PERMISSIVE if chance.random() < old else Mode.STRICT
        costs = tuple(_cost(chance, rate, window) for _ in range(_topics(chance)))
        steps.append(Try(_wait(chance, rate, window, steady=steady), mode, costs))
    return Sequence(window, tuple(steps))


def _rate(chance: random.Random) -> float:
    return chance.choice(_RATES) if chance.random() < 1 / 2 else 10 ** chance.uniform(-3, 6)


def _topics(chance: random.Random) -> int:
    return chance.choice([1, 1, 1, 2, 3, 7])


def _cost(chance: random.Random, rate: float, window: Window) -> int:
    """Return a cost from zero to huge, mostly a part of the burst."""
    if chance.random() < _HUGE:
        return int(10 ** chance.uniform(0, 9))
    burst = rate * window.num * window.size_seconds
    kinds: list[Callable[[], float]] = [
        lambda: 0,
        lambda: 1,
        lambda: chance.randint(1, 100),
        lambda: burst * chance.uniform(0, 0.4),
        lambda: burst * chance.uniform(0.4, 1.5),
        lambda: rate,
    ]
    return min(_LARGEST_COST, max(0, round(chance.choices(kinds, [1, 4, 4, 6, 2, 4])[0]())))


def _wait(chance: random.Random, rate: float, window: Window, *, steady: bool) -> int | Throttle:
    kind = chance.random()
    if kind < _THROTTLE:
        return Throttle(chance.choice([-1, 0, 0, 0, 1]))
    if kind < _THROTTLE + _STEP_BACK and not steady:
        return -_gap(chance, rate, window)
    return _gap(chance, rate, window)


def _gap(chance: random.Random, rate: float, window: Window) -> int:
    """Return the ms to the next step: none, a few, the time of some mutations or of a burst, or up to a day."""
    burst_ms = window.num * window.size_seconds * 1000
    kinds: list[Callable[[], float]] = [
        lambda: 0,
        lambda: chance.randint(1, 20),
        lambda: min(chance.uniform(0, 20) * 1000 / rate, 10 * burst_ms),
        lambda: chance.uniform(0, burst_ms),
        lambda: chance.uniform(0, 24 * 3_600_000),
    ]
    return round(chance.choices(kinds, [3, 3, 5, 4, 0.2])[0]())
