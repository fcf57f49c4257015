"""Decisions of one bucket, its quota log, and their explanations."""

from quota.admission.decide import decide
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.explanation.explanation import Neighbours, explain
from quota.explanation.quota_history import QuotaHistory
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaLogEntry, QuotaRecord, ResetRecord, Window
from tests.support.factories import resolved

WINDOW = Window(num=100)
ALICE = QuotaEntity("alice")
FIVE = QuotaLogEntry(0, -1000, QuotaRecord(ALICE, 5.0, altered_by="ann", comment="as agreed"))
TEN = QuotaLogEntry(1, 2000, QuotaRecord(ALICE, 10.0, altered_by="ben"))
RESET = QuotaLogEntry(1, 1000, ResetRecord({"user": "alice"}, altered_by="ben"))


def in_one_partition(*requests):
    """Return resolved requests of one partition in order; each is (time in epoch ms, partitions, more fields)."""
    return [
        resolved(*partitions, at=at, offset=offset, **fields)
        for offset, (at, partitions, fields) in enumerate(requests)
    ]


def decided(*requests, repeats_ms=0):
    """Return the decisions of a new bucket on such requests."""
    return decide(None, in_one_partition(*requests), TokenBucket(WINDOW, Deduplication(window_ms=repeats_ms)))[1]


def decided_one_by_one(*requests):
    """Return the decisions of a new bucket on such requests, each in a batch of its own: in the order as given."""
    bucket, decisions = None, []
    for request in in_one_partition(*requests):
        bucket, (decision,) = decide(bucket, [request], TokenBucket(WINDOW))
        decisions.append(decision)
    return decisions


def explained(decisions, number=-1, log=(FIVE,), neighbours=0):
    """Return the explanation of one of a bucket's decisions, the last one by default."""
    index = range(len(decisions))[number]
    around = Neighbours(reversed(decisions[:index]), decisions[index + 1 :], neighbours)
    return explain(decisions[index], around, QuotaHistory(log), WINDOW)


WORKED = decided((0, [80] * 7, {}), (0, [80], {}), (12_000, [80], {}))
"""KIP-599's own example: Q=5, B=500."""

CHANGED = decided((0, [560], {}), (3000, [80], {"rate": 10.0, "since": 2000}))
"""A quota that was raised from 5/s to 10/s after 2 s."""
