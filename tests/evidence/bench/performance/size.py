"""The size of the measurements."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a measurement."""

    rounds: int
    warm: float
    """Time of the warm-up for latencies, seconds."""
    rates: tuple[float, ...]
    """Rates of the latencies, requests/s."""
    seconds: float
    """Time for which a rate is measured."""
    uncounted: float
    """Time at the start of each load that does not count."""
    keys: Mapping[int, int]
    """Rounds by the number of active keys in a batch."""
    backlog: int
    """Number of waiting requests."""
    batch: int
    """Requests of a batch of the backlog."""
    few: int
    """With more active keys, a batch takes half a minute: the buckets are then stored before, and each batch counts."""
    audit_seconds: float
    """Time from one batch of the audit to the next."""
    minute: float
    """Time after a takeover, of a later comparison with it, and of a look at what a standby costs, seconds."""


FULL = Size(
    rounds=3,
    warm=50.0,
    rates=(10.0, 200.0, 1000.0),
    seconds=5.0,
    uncounted=2.0,
    keys={1: 3, 1000: 3, 100_000: 2},
    backlog=1_000_000,
    batch=100_000,
    few=10_000,
    audit_seconds=10.0,
    minute=60.0,
)
SMOKE = Size(
    rounds=1,
    warm=10.0,
    rates=(200.0,),
    seconds=2.0,
    uncounted=0.2,
    keys={5: 1, 20: 1},
    backlog=600,
    batch=200,
    few=10,
    audit_seconds=1.0,
    minute=5.0,
)
