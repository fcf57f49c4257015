"""The algorithms by name."""

import enum
from typing import Any

from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.algorithms.interface import Algorithm
from quota.algorithms.kafka_rate import NO_SAMPLES
from quota.algorithms.rate_quota import RateQuota
from quota.algorithms.spread_windows import NO_SPREAD
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadInput
from quota.records.quota import Window


class AlgorithmName(enum.Enum):
    """The algorithms of KIP-599: the chosen one, Kafka's former one, and that of an earlier version of the KIP."""

    TOKEN_BUCKET = "token-bucket"  # noqa: S105 no secret
    SAMPLED_RATE = "sampled-rate"
    SPREAD_RATE = "spread-rate"


def make_algorithm(
    name: AlgorithmName, window: Window, deduplication: Deduplication = NO_DEDUPLICATION
) -> Algorithm[Any]:
    """Return the algorithm of this name.

    Raises:
        BadInput: deduplication is requested of an algorithm that does not support it.
    """
    if name is AlgorithmName.TOKEN_BUCKET:
        return TokenBucket(window, deduplication)
    if deduplication.window_ms:
        raise BadInput(
            f"repeats.window_seconds={deduplication.window_ms / 1000:g}: {name.value} does not support deduplication; "
            "set it to 0, or use token-bucket"
        )
    return RateQuota(window, NO_SAMPLES) if name is AlgorithmName.SAMPLED_RATE else RateQuota(window, NO_SPREAD)
