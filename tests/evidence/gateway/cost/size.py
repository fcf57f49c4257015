"""The size of the measurement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the measurement; times in seconds."""

    calls: int
    warm_up: int
    """Calls that do not count."""
    connections: int
    idle: float
    calls_among: int
    """Calls before and among idle connections."""
    records: int
    """Records of each producer and consumer."""
    rounds: int
    """Rounds of these records."""


FULL = Size(
    calls=5000,
    warm_up=200,
    connections=5000,
    idle=10.0,
    calls_among=1000,
    records=200_000,
    rounds=3,
)
SMOKE = Size(
    calls=200,
    warm_up=10,
    connections=200,
    idle=0.1,
    calls_among=10,
    records=20_000,
    rounds=1,
)
