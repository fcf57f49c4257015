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
    batches: int
    """Batches of 1 MB in a large request."""
    connections: int
    idle: float
    calls_among: int
    """Calls before and among idle connections."""
    mutations: int
    mutations_warm_up: int
    topics: int
    listings: int
    records: int
    """Records of each producer and consumer."""
    gateways: tuple[int, ...]
    """The numbers of gateways that these records pass through."""
    leaving: int
    """Clients that leave at once."""


FULL = Size(
    calls=5000,
    warm_up=200,
    rounds=3,
    seconds=1.5,
    batches=90,
    connections=5000,
    idle=10.0,
    calls_among=1000,
    mutations=30,
    mutations_warm_up=3,
    topics=1000,
    listings=20,
    records=200_000,
    gateways=(1, 2),
    leaving=1000,
)
SMOKE = Size(
    calls=10,
    warm_up=0,
    rounds=1,
    seconds=0.05,
    batches=2,
    connections=20,
    idle=0.1,
    calls_among=10,
    mutations=1,
    mutations_warm_up=0,
    topics=10,
    listings=2,
    records=500,
    gateways=(1,),
    leaving=20,
)
