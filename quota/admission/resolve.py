"""From a record to a request that can be judged, or to a dead letter."""

from typing import Protocol

import msgspec

from quota.admission.identity import user_of
from quota.admission.policy import Policy
from quota.errors import BadRecord
from quota.records.dead_letter import check_size, dead_letter
from quota.records.decision import DeadLetter
from quota.records.record import Record, check_stamped
from quota.records.request import ANONYMOUS, MutationRequest, read_request
from quota.text import quoted
from quota.timeline.resolution import EXEMPT, Resolution, ResolvedRequest

_SHOWN = 40  # characters of a name that an error shows


class Quotas(Protocol):
    """Who has which quota when: a `QuotaTimeline`, or `quota.callbacks.timeline.CallbackQuotas`."""

    def resolve(self, user: str, client_id: str, at: int) -> Resolution:
        """The quota of a request with this user and client-id, as of `at` (epoch ms).

        Raises:
            BadRecord: there is none that can be told.
        """


def resolve(record: Record, quotas: Quotas, policy: Policy) -> ResolvedRequest | DeadLetter:
    """Read a record and find its quota as of the record's own timestamp."""
    try:
        check_size(record, policy.max_bytes)
        request = request_of(record, policy)
        check_stamped(by_broker=record.stamped)
        resolution = judged_by(request.user, request.client_id, record.timestamp, quotas, policy)
    except BadRecord as error:
        return dead_letter(record, str(error), policy.max_bytes)
    return ResolvedRequest(record, request, resolution)


def request_of(record: Record, policy: Policy) -> MutationRequest:
    """The request in a record: who it is from, and within the limits.

    Raises:
        BadRecord: with a sentence that names the field and the value.
    """
    request = read_request(record.value)
    _check_limits(request, policy)
    if policy.requests_of_users is None:
        return request
    user = user_of(record.source.topic, policy.requests_of_users)
    if user is None:
        raise BadRecord(
            f"user: nobody's topic, expected {policy.requests_of_users}.USER (value: {record.source.topic})"
        )
    if request.user not in (user, ANONYMOUS):
        raise BadRecord(f"user: not the one whose topic {record.source.topic} is (value: {_shown(request.user)})")
    return msgspec.structs.replace(request, user=user)


def _check_limits(request: MutationRequest, policy: Policy) -> None:
    """Check how many topics there are, and how long the names.

    Raises:
        BadRecord: too many, or too long.
    """
    if len(request.topics) > policy.max_topics:
        raise BadRecord(
            f"topics: more than the {policy.max_topics} that limits.max_topics allows ({len(request.topics)})"
        )
    most = policy.max_name_chars
    names = {"request_id": request.request_id, "user": request.user, "client_id": request.client_id}
    if any(len(topic.name) > most for topic in request.topics):
        names |= {f"topics[{number}].name": topic.name for number, topic in enumerate(request.topics)}
    for field, name in names.items():
        if len(name) > most:
            raise BadRecord(
                f"{field}: longer than the {most} characters that limits.max_name_chars allows "
                f"({len(name)}, value: {_shown(name)})"
            )


def _shown(name: str) -> str:
    return quoted(name) if len(name) <= _SHOWN else f"{quoted(name[:_SHOWN])}…"


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
