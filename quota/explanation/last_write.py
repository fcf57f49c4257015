"""What a bucket held before a decision, as the decisions before it tell."""

from collections.abc import Iterable

from quota.algorithms.bucket import Bucket
from quota.records.decision import Decision, ErrorCode, paid_topics
from quota.records.quota import Quota


def last_write(before: Iterable[Decision]) -> Decision | None:
    """The decision that wrote the bucket last, of those before a moment, the newest first.

    That is the last one that charged it, or the first one that was refused by another quota. Where decisions end
    before it, it is the oldest of them: what it told of the bucket is the same but for rounding.
    """
    oldest = None
    for decision in before:
        if decision.validate_only:
            continue
        if oldest is not None and quota_of(decision) != quota_of(oldest):
            return oldest
        oldest = decision
        if is_charge(decision):
            return decision
    return oldest


def is_charge(decision: Decision) -> bool:
    """Whether a topic was charged to the bucket, which writes it even where the topic costs nothing."""
    admitted = judged_codes(decision).count(ErrorCode.NONE)
    return decision.quota is not None and not decision.validate_only and admitted > paid_topics(decision.repeats)


def judged_codes(decision: Decision) -> list[int]:
    """The error code of each topic; where the quota is in shadow, the one that would have been told."""
    return decision.shadow.error_codes if decision.shadow else [topic.error_code for topic in decision.topics]


def quota_of(decision: Decision) -> Quota | None:
    """What a decision was judged by, with the burst that came of it."""
    return None if decision.quota is None else Quota(decision.quota, decision.burst, decision.max_debt_ms)


def bucket_after(decision: Decision) -> Bucket:
    """The bucket as the decision left it that wrote it last.

    Raises:
        ValueError: the decision was unlimited, and had none.
    """
    if decision.quota is None or decision.tokens is None:
        raise ValueError(f"{decision.decision_id} touched no bucket")
    return Bucket(decision.tokens, decision.timestamp, decision.quota, decision.burst, decision.max_debt_ms)
