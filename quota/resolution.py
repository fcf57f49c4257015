"""From a record to a request that can be judged, or to a dead letter."""

from dataclasses import dataclass

from quota.dead_letter import check_size, dead_letter
from quota.decision import DeadLetter
from quota.errors import BadRecord
from quota.record import Record
from quota.request import MutationRequest, read_request
from quota.timeline import QuotaTimeline, Resolution

DEFAULT_MAX_BYTES = 1024 * 1024
"""Key and value of the largest request, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request, the record it came in, and the quota it is judged by."""

    record: Record
    request: MutationRequest
    resolution: Resolution


def resolve(
    record: Record, timeline: QuotaTimeline, max_bytes: int = DEFAULT_MAX_BYTES
) -> ResolvedRequest | DeadLetter:
    """Read a record and find its quota as of the record's own timestamp."""
    try:
        check_size(record, max_bytes)
        request = read_request(record.value)
    except BadRecord as error:
        return dead_letter(record, str(error), max_bytes)
    return ResolvedRequest(record, request, timeline.resolve(request.user, request.client_id, record.timestamp))
