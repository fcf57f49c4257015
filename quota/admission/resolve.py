"""The resolution of a record: the valid request with its quota, or a dead letter."""

from msgspec.structs import replace

from quota.admission.policy import Policy
from quota.admission.validation import valid_request
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records.dead_letter import DeadLetter, make_dead_letter
from quota.records.levels import EXEMPT, Resolution, ResolvedRequest
from quota.records.record import Record


def resolve(record: Record, quotas: CallbackTimeline, policy: Policy) -> ResolvedRequest | DeadLetter:
    """Return the valid request of a record with its quota, or a dead letter.

    The quota is that of the record's timestamp, or for an observed request that of the time at which the broker
    received it.
    """
    try:
        request = valid_request(record, policy)
        if request.observed is not None:
            record = replace(record, timestamp=min(request.observed.at, record.timestamp))
        resolution = resolve_quota(request.user, request.client_id, record.timestamp, quotas, policy)
    except BadRecord as error:
        return make_dead_letter(record, str(error), policy.max_bytes)
    return ResolvedRequest(record, request, resolution if request.observed is None else in_shadow(resolution))


def resolve_quota(user: str, client_id: str, at: int, quotas: CallbackTimeline, policy: Policy) -> Resolution:
    """Return the quota of a request as of `at` (epoch ms), with the policy's exempt users and shadow mode."""
    if user in policy.exempt_users:
        return EXEMPT
    resolution = quotas.resolve(user, client_id, at)
    return in_shadow(resolution) if policy.shadow else resolution


def in_shadow(resolution: Resolution) -> Resolution:
    """Return the resolution in shadow: every topic is admitted, and rejections are only reported."""
    return resolution if resolution.limit is None else resolution._replace(shadow=True)
