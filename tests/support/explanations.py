"""Decisions of one bucket, to be explained."""

from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota_log import Window
from tests.support.factories import decide_all, resolved

WINDOW = Window(num=100)


def decided(*requests, repeats_ms=0):
    """Return the decisions of a new bucket; each request is (time in epoch ms, partitions, more fields)."""
    in_order = [
        resolved(*partitions, at=at, offset=offset, **fields)
        for offset, (at, partitions, fields) in enumerate(requests)
    ]
    return decide_all(*in_order, algorithm=TokenBucket(WINDOW, Deduplication(window_ms=repeats_ms)))[1]


WORKED = decided((0, [80] * 7, {}), (0, [80], {}), (12_000, [80], {}))
"""KIP-599's own example: Q=5, B=500."""

CHANGED = decided((0, [560], {}), (3000, [80], {"rate": 10.0, "since": 2000}))
"""A quota that was raised from 5/s to 10/s after 2 s."""
