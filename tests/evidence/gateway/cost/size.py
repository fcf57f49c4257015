"""The size of the measurement."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the measurement; times in seconds."""

    calls: int
    warm_up: int
    """Calls that do not count."""
    rounds: int
    """Rounds of concurrent calls, each of `seconds`."""
    seconds: float
    batches: int
    """Batches of 1 MB in a transfer."""
    transfers: int
    connections: int
    idle: float
    calls_among: int
    """Calls before and among idle connections."""
    mutations: int
    mutations_warm_up: int
    topics: int
    listings: int


_BOTH: dict[str, tuple[Any, Any]] = {
    "calls": (5000, 10),
    "warm_up": (200, 0),
    "rounds": (3, 1),
    "seconds": (1.5, 0.05),
    "batches": (90, 2),
    "transfers": (5, 1),
    "connections": (5000, 20),
    "idle": (10.0, 0.1),
    "calls_among": (1000, 10),
    "mutations": (30, 1),
    "mutations_warm_up": (3, 0),
    "topics": (1000, 10),
    "listings": (20, 2),
}
"""The sizes of a whole run and of the smoke form."""

FULL, SMOKE = (Size(**{name: both[number] for name, both in _BOTH.items()}) for number in (0, 1))
