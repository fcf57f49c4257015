"""From a record to a request that can be judged, or to a dead letter."""

from dataclasses import dataclass

from quota.decision import DeadLetter, dead_letter
from quota.errors import BadRecord
from quota.record import Record
from quota.request import DEFAULT_MAX_BYTES, MutationRequest, read_request
from quota.timeline import QuotaTimeline, Resolution


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
        request = read_request(record.value, max_bytes)
    except BadRecord as error:
        return dead_letter(record, str(error), max_bytes)
    return ResolvedRequest(record, request, timeline.resolve(request.user, request.client_id, record.timestamp))
