"""All problems of an invalid request, and its sender, as far as the record shows them: for people who correct it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from quota.admission.identity import user_of
from quota.admission.policy import Policy
from quota.admission.validation import valid_request
from quota.errors import BadRecord
from quota.records import codec
from quota.records.record import Record
from quota.records.request import MutationRequest, Operation, read_request

_TOPIC: dict[str, Any] = {"name": "t", "partitions": 0}
_VALID: dict[str, Any] = {
    "request_id": "r",
    "operation": Operation.CREATE_TOPICS.value,
    "api_version": 0,
    "topics": [_TOPIC],
}
"""The required fields, so that each field of an invalid request can be read alone."""

_MAX_ELEMENTS = 100
"""The number of topics that are read, so that a large record does not take long."""


def more_problems(record: Record, first: str, policy: Policy) -> list[str]:
    """Return the problems of an invalid record besides the `first`, which its dead letter names: one for each field."""
    known = {_field(first)}
    problems = []
    for problem in _problems(record, policy):
        if (field := _field(problem)) not in known:
            known.add(field)
            problems.append(problem)
    return problems


def claimed_sender(record: Record, policy: Policy) -> tuple[str | None, str | None]:
    """Return the user and the client-id of an invalid record, as its topic or it names them; None if unknown."""
    prefix = policy.user_topic_prefix
    fields = _fields(record.value or b"")
    user, client_id = (name if isinstance(name := fields.get(field), str) else None for field in ("user", "client_id"))
    owner = None if prefix is None else user_of(record.source.topic, prefix)
    return owner or user or None, client_id or None


def _problems(record: Record, policy: Policy) -> Iterator[str]:
    fields = _fields(record.value or b"")
    if not fields:
        return
    is_readable = True
    for field in msgspec.structs.fields(MutationRequest):
        alone = {name: value for name, value in _VALID.items() if name != field.name}
        given = {field.name: fields[field.name]} if field.name in fields else {}
        if field.name == "topics" and isinstance(topics := given.get("topics"), list) and topics:
            read: list[Any] = [[*[_TOPIC] * number, topic] for number, topic in enumerate(topics[:_MAX_ELEMENTS])]
        else:
            read = [given.get(field.name)]
        for value in read:
            try:
                read_request(codec.encode(alone | ({field.name: value} if given else {})))
            except BadRecord as error:
                is_readable = False
                yield str(error)
    if is_readable:
        try:
            valid_request(record, policy)
        except BadRecord as error:
            yield str(error)


def _fields(value: bytes) -> dict[str, Any]:
    """Return the fields of a record that is a JSON object."""
    try:
        fields = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _field(problem: str) -> str:
    return problem.partition(": ")[0]
