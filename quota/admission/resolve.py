"""The resolution of a record: the valid request with its quota, or a dead letter."""

import msgspec
from msgspec.structs import replace

from quota.admission.identity import user_of
from quota.admission.policy import Policy
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadRecord
from quota.records import codec
from quota.records.dead_letter import DeadLetter, make_dead_letter
from quota.records.levels import EXEMPT, Resolution, ResolvedRequest
from quota.records.record import Record
from quota.records.request import ANONYMOUS, MutationRequest, Observed, read_request, read_valid
from quota.text import format_duration, quoted


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


_SHOWN_CHARS = 40  # of a name in an error

MAX_OBSERVED_AGE_MS = 7 * 24 * 3600 * 1000
"""The maximum age of an observed request when it is written: for this time, the quota topic keeps all changes."""

FEWER_TOPICS = "name fewer topics in one request"
"""What to do about a request that is too large."""


def valid_request(record: Record, policy: Policy) -> MutationRequest:
    """Return the request in a record, with the user that its topic identifies."""
    if record.size > policy.max_bytes:
        # Of the part that the dead letter holds, so that its error tells whether that is text.
        kept = max(0, policy.max_bytes - len(record.key or b""))
        codec.check_text((record.value or b"")[:kept], whole=False)
        raise BadRecord(
            f"value: key and value together are larger than the {policy.max_bytes} bytes "
            f"that a request may have; {FEWER_TOPICS}"
        )
    request = read_request(record.value)
    _check_limits(request, policy)
    if request.observed is not None:
        _check_observed(request.observed, len(request.topics), record, policy)
    if request.withdraws:
        _check_withdrawal(request, policy)
    request = _identified(request, record, policy)
    record.check_stamped()
    if request.apply and request.expires_at is not None and request.expires_at <= record.timestamp:
        late = format_duration(record.timestamp - request.expires_at)
        raise BadRecord(
            f"expires_at: expired {late} before the broker received the request, so it is not charged; check the clock "
            f"of the machine that wrote it (value: {request.expires_at})"
        )
    return request


def restore(record: Record, found: Resolution | str, policy: Policy) -> ResolvedRequest | DeadLetter:
    """Return what `resolve` has found for a record, by its resolution or its error; `record` has the resolved time.

    The request is parsed without validation, in a third of the time.
    """
    if isinstance(found, str):
        return make_dead_letter(record, found, policy.max_bytes)
    return ResolvedRequest(record, _identified(read_valid(record.value), record, policy), found)


def _check_limits(request: MutationRequest, policy: Policy) -> None:
    if len(request.topics) > policy.max_topics:
        raise BadRecord(f"topics: more than the {policy.max_topics} that a request may have ({len(request.topics)})")
    limit = policy.max_name_chars
    of_topics = [len(topic.name) for topic in request.topics]
    if max(len(request.request_id), len(request.user), len(request.client_id), *of_topics) <= limit:
        return
    names = {"request_id": request.request_id, "user": request.user, "client_id": request.client_id}
    names |= {f"topics[{number}].name": topic.name for number, topic in enumerate(request.topics)}
    for field, name in names.items():
        if len(name) > limit:
            raise BadRecord(
                f"{field}: longer than the {limit} characters that a name may have "
                f"({len(name)}, value: {_shortened(name)})"
            )


def _check_observed(observed: Observed, topics: int, record: Record, policy: Policy) -> None:
    if policy.user_topic_prefix is not None:
        raise BadRecord("observed: not allowed where users have topics of their own (topics.identity=topic)")
    if len(observed.error_codes) != topics:
        raise BadRecord(
            f"observed.error_codes: expected one for each of the {topics} topics (value: {observed.error_codes[:10]})"
        )
    if any(index >= topics for index in observed.assumed):
        raise BadRecord(f"observed.assumed: expected indexes of the {topics} topics (value: {observed.assumed[:10]})")
    if record.timestamp - observed.at > MAX_OBSERVED_AGE_MS:
        raise BadRecord(f"observed.at: more than seven days before the record (value: {observed.at})")


def _check_withdrawal(request: MutationRequest, policy: Policy) -> None:
    if policy.user_topic_prefix is not None:
        raise BadRecord("withdraws: not allowed where users have topics of their own (topics.identity=topic)")
    if request.observed is not None:
        raise BadRecord("withdraws: an observed request cannot be withdrawn, because its mutations have happened")
    if not request.validate_only:
        raise BadRecord("validate_only: expected true with withdraws, so that no program charges it (value: false)")


def _identified(request: MutationRequest, record: Record, policy: Policy) -> MutationRequest:
    """Return the request with the user that its topic identifies, if users have topics of their own."""
    user_topic_prefix = policy.user_topic_prefix
    if user_topic_prefix is None:
        return request
    topic = record.source.topic
    user = user_of(topic, user_topic_prefix)
    if user is None:
        raise BadRecord(f"user: this topic belongs to no user, expected {user_topic_prefix}.USER (value: {topic})")
    if request.user not in (user, ANONYMOUS):
        raise BadRecord(f"user: the topic {topic} belongs to another user (value: {_shortened(request.user)})")
    return msgspec.structs.replace(request, user=user)


def _shortened(name: str) -> str:
    return quoted(name) if len(name) <= _SHOWN_CHARS else f"{quoted(name[:_SHOWN_CHARS])}…"
