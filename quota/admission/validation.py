"""The validation of a request: its size, its fields, the limits of the settings, its user and its timestamp."""

import msgspec

from quota.admission.identity import user_of
from quota.admission.policy import Policy
from quota.errors import BadRecord
from quota.records import codec
from quota.records.record import Record
from quota.records.request import ANONYMOUS, MutationRequest, Observed, read_request, read_valid
from quota.text import quoted

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
            f"that limits.max_request_bytes allows; {FEWER_TOPICS}"
        )
    request = read_request(record.value)
    _check_limits(request, policy)
    if request.observed is not None:
        _check_observed(request.observed, len(request.topics), record, policy)
    request = _identified(request, record, policy)
    record.check_stamped()
    return request


def parse_valid(record: Record, policy: Policy) -> MutationRequest:
    """Return the request of a record that `valid_request` has accepted, without validation: in a third of its time."""
    return _identified(read_valid(record.value), record, policy)


def _check_limits(request: MutationRequest, policy: Policy) -> None:
    """Check the number of topics and the lengths of names."""
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
    """Check the cluster's answer in an observed request."""
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
