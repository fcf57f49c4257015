"""The size of the measurement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the measurement; times in seconds."""

    calls: int
    warm_up: int
    """Calls that do not count."""
    rounds: int
    """Rounds of concurrent calls, each of `seconds`."""
    seconds: float
    connections: int
    idle: float
    calls_among: int
    """Calls before and among idle connections."""
    topics: int
    listings: int
    records: int
    """Records of each producer and consumer."""
    gateways: tuple[int, ...]
    """The numbers of gateways that these records pass through."""


FULL = Size(
    calls=5000,
    warm_up=200,
    rounds=3,
    seconds=1.5,
    connections=5000,
    idle=10.0,
    calls_among=1000,
    topics=1000,
    listings=20,
    records=200_000,
    gateways=(1, 2),
)
SMOKE = Size(
    calls=200,
    warm_up=10,
    rounds=1,
    seconds=0.2,
    connections=200,
    idle=0.1,
    calls_among=10,
    topics=10,
    listings=2,
    records=20_000,
    gateways=(1,),
)
