"""The algorithms by the names that people choose them by."""

import enum
from typing import Any

from quota.algorithms.algorithm import Algorithm
from quota.algorithms.bucket import Window
from quota.algorithms.deduplication import NO_DEDUPLICATION, Deduplication
from quota.algorithms.kafka_rate import NO_SAMPLES
from quota.algorithms.rate_quota import NO_SPREAD, RateQuota
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadInput


class AlgorithmName(enum.Enum):
    """The three of KIP-599: the one it chose, Kafka's before it, and an earlier version of its own."""

    TOKEN_BUCKET = "token-bucket"  # noqa: S105 no secret
    SAMPLED_RATE = "sampled-rate"
    SPREAD_RATE = "spread-rate"


def make_algorithm(name: AlgorithmName, window: Window, repeats: Deduplication = NO_DEDUPLICATION) -> Algorithm[Any]:
    """The algorithm of a name.

    Raises:
        BadInput: requests are to be remembered, by one that cannot.
    """
    if name is AlgorithmName.TOKEN_BUCKET:
        return TokenBucket(window, repeats)
    if repeats.window_ms:
        raise BadInput(
            f"repeats.window_seconds={repeats.window_ms / 1000:g}: {name.value} remembers no requests; "
            "set it to 0, or take token-bucket"
        )
    return RateQuota(window, NO_SAMPLES) if name is AlgorithmName.SAMPLED_RATE else RateQuota(window, NO_SPREAD)
