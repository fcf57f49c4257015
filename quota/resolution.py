"""From a record to a request that can be judged, or to a dead letter."""

from dataclasses import dataclass
from typing import Protocol

from quota.dead_letter import check_size, dead_letter
from quota.decision import DeadLetter
from quota.errors import BadRecord
from quota.record import Record
from quota.repeats import NOT_REMEMBERED, Repeats
from quota.request import MutationRequest, read_request
from quota.timeline import EXEMPT, Resolution

DEFAULT_MAX_BYTES = 1024 * 1024
"""Key and value of the largest request, unless the settings say otherwise."""


class Quotas(Protocol):
    """Who has which quota when: a `quota.timeline.QuotaTimeline`, or a `quota.callbacks.quotas.CallbackQuotas`."""

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """The quota of a request with this user and client-id, as of `at` (epoch ms).

        Raises:
            BadRecord: there is none that can be told.
        """


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings say of all requests alike."""

    max_bytes: int = DEFAULT_MAX_BYTES
    """A larger record is a dead letter."""
    exempt_users: frozenset[str] = frozenset()
    """Principals that are never throttled."""
    shadow: bool = False
    """Decide and report, but admit, whatever the quota."""
    repeats: Repeats = NOT_REMEMBERED
    """How long requests are remembered, so that they are not charged twice."""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request, the record it came in, and the quota it is judged by."""

    record: Record
    request: MutationRequest
    resolution: Resolution


def resolve(record: Record, quotas: Quotas, policy: Policy) -> ResolvedRequest | DeadLetter:
    """Read a record and find its quota as of the record's own timestamp."""
    try:
        check_size(record, policy.max_bytes)
        request = read_request(record.value)
        resolution = judged_by(request.user, request.client_id, record.timestamp, quotas, policy)
    except BadRecord as error:
        return dead_letter(record, str(error), policy.max_bytes)
    return ResolvedRequest(record, request, resolution)


def judged_by(user: str, client_id: str, at: int, quotas: Quotas, policy: Policy) -> Resolution:
    """What a request of a user and client-id is judged by, as of `at` (epoch ms).

    Raises:
        BadRecord: a callback failed.
    """
    if user in policy.exempt_users:
        return EXEMPT
    resolution = quotas.resolve(user, client_id, at)
    if policy.shadow and resolution.limit is not None:
        return resolution._replace(shadow=True)
    return resolution
