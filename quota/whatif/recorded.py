"""Recorded decisions: restored to the requests that they answered, and with the answer of the cluster or of shadow."""

from collections.abc import Sequence

import msgspec

from quota.admission.policy import Policy
from quota.admission.resolve import in_shadow, resolve_quota
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import ErrorCode
from quota.records.decision import Decision, Outcome
from quota.records.levels import Resolution, ResolvedRequest
from quota.records.record import Record


def resolve_again(decision: Decision, quotas: CallbackTimeline, policy: Policy) -> Resolution:
    """Return the quota of a decision's request under these quotas."""
    resolution = resolve_quota(decision.user, decision.client_id, decision.timestamp, quotas, policy)
    return resolution if decision.observed is None else in_shadow(resolution)


def resolved_to(decision: Decision, resolution: Resolution) -> ResolvedRequest:
    """Return a decision's request with this quota."""
    return ResolvedRequest(Record(decision.source, decision.timestamp, None), decision.request, resolution)


_NAMES = {code.value: code.name for code in ErrorCode}


def as_answered(decision: Decision) -> Decision:
    """Return a decision with the cluster's answer, if its request was observed.

    Without a quota, buckets are not shared: each sender (user and client-id) has its own tags.
    """
    observed = decision.observed
    if decision.quota is None:
        decision = msgspec.structs.replace(decision, user_tag=decision.user, client_tag=decision.client_id)
    return decision if observed is None else _with_answer(decision, observed.error_codes, observed.throttle_time_ms)


def as_enforced(decision: Decision) -> Decision:
    """Return a decision with the answer that its quota would have given if it were not in shadow."""
    shadow = decision.shadow
    return decision if shadow is None else _with_answer(decision, shadow.error_codes, shadow.throttle_time_ms)


def _with_answer(decision: Decision, codes: Sequence[int], throttle_ms: int) -> Decision:
    topics = [
        msgspec.structs.replace(topic, error_code=code, error=_NAMES.get(code, str(code)))
        for topic, code in zip(decision.topics, codes, strict=True)
    ]
    return msgspec.structs.replace(
        decision,
        outcome=Outcome.of([not code for code in codes]),
        topics=topics,
        throttle_time_ms=throttle_ms,
        retry_at=decision.timestamp + throttle_ms,
        shadow=None,
    )
