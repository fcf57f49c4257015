"""From a record to a request that can be judged, or to a dead letter."""

from dataclasses import dataclass

from quota.dead_letter import check_size, dead_letter
from quota.decision import DeadLetter
from quota.errors import BadRecord
from quota.record import Record
from quota.request import MutationRequest, read_request
from quota.timeline import EXEMPT, QuotaTimeline, Resolution

DEFAULT_MAX_BYTES = 1024 * 1024
"""Key and value of the largest request, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings say of all requests alike."""

    max_bytes: int = DEFAULT_MAX_BYTES
    """A larger record is a dead letter."""
    exempt_users: frozenset[str] = frozenset()
    """Principals that are never throttled."""
    shadow: bool = False
    """Decide and report, but admit, whatever the quota."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request, the record it came in, and the quota it is judged by."""

    record: Record
    request: MutationRequest
    resolution: Resolution


def resolve(record: Record, timeline: QuotaTimeline, policy: Policy) -> ResolvedRequest | DeadLetter:
    """Read a record and find its quota as of the record's own timestamp."""
    try:
        check_size(record, policy.max_bytes)
        request = read_request(record.value)
    except BadRecord as error:
        return dead_letter(record, str(error), policy.max_bytes)
    return ResolvedRequest(
        record, request, judged_by(request.user, request.client_id, record.timestamp, timeline, policy)
    )


def judged_by(user: str, client_id: str, at: int, timeline: QuotaTimeline, policy: Policy) -> Resolution:
    """What a request of a user and client-id is judged by, as of `at` (epoch ms)."""
    if user in policy.exempt_users:
        return EXEMPT
    resolution = timeline.resolve(user, client_id, at)
    if policy.shadow and resolution.limit is not None:
        return resolution._replace(shadow=True)
    return resolution
