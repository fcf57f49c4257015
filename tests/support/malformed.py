"""Malformed records of every type: nasty values at every path of a valid record, and bytes that are no record."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.factories import DECISION_RECORD

_SOURCE = {"topic": "mutation-requests", "partition": 0, "offset": 3}
_TOPIC = {"count": 3, "replication_factor": 1, "assignments": [[0], [1]], "configs": {"retention.ms": "5"}}
_OBSERVED = {"at": 5, "error_codes": [0], "throttle_time_ms": 1, "took_ms": 2, "assumed": [0]}
_BUCKET_BEFORE = {
    "tokens": 55.0,
    "updated_at": 129_590_000,
    "quota": 5.0,
    "burst": 55.0,
    "max_debt_ms": 60_000,
    "changed_at": 129_595_000,
    "set_back_to": 129_580_000,
    "reset_at": 129_570_000,
}
_CHANGE = {"effective_at": 129_600_000, "altered_by": "ops", "comment": "peak"}

_REQUEST = {
    "request_id": "r",
    "operation": "CREATE_TOPICS",
    "api_version": 7,
    "topics": [{"name": "t", "partitions": 2, **_TOPIC}],
    "user": "alice",
    "client_id": "app",
    "validate_only": False,
    "request_throttle_ms": 1,
    "purgatory_ms": 1,
    "apply": True,
    "expires_at": 253_402_300_799_999,
    "unrecorded": 2,
}

RECORDS: dict[str, dict[str, Any]] = {
    "request": {**_REQUEST, "observed": _OBSERVED},
    "withdrawal": {**_REQUEST, "withdraws": True, "validate_only": True},
    "decision": {
        **DECISION_RECORD,
        "topics": [{**DECISION_RECORD["topics"][0], **_TOPIC}],
        "max_debt_ms": 60_000,
        "apply": True,
        "expires_at": 129_660_000,
        "repeats": {"decision_id": "mutation-requests-1-5", "topics": 1},
        "observed": _OBSERVED,
        "bucket_before": _BUCKET_BEFORE,
        "withdraws": {"decision_id": "mutation-requests-1-5", "mutations": 3.0},
        "max_request_mutations": 1000,
        "unrecorded": 2,
    },
    "dead letter": {"error": "topics: missing", "value": "{}", "timestamp": 5, "source": _SOURCE},
    "result": {
        "decision_id": "mutation-requests-0-3",
        "request_id": "r",
        "user": "alice",
        "client_id": "app",
        "operation": "CREATE_TOPICS",
        "validate_only": False,
        "topics": [{"name": "t", "error_code": 36, "error": "TOPIC_ALREADY_EXISTS", "error_message": "x"}],
        "timestamp": 5,
        "source": _SOURCE,
    },
    "quota": {
        "entity": {"user": "alice", "client-id": None},
        "controller_mutation_rate": 5.0,
        "controller_mutation_burst": 50.0,
        "max_debt_ms": 60_000,
        "shadow": False,
        "max_request_mutations": 1000,
        "altered_configs": ["controller_mutation_rate"],
        "cancelled": False,
        **_CHANGE,
    },
    "removal": {"entity": {"client-id": "app"}, "controller_mutation_rate": None, "cancelled": True, **_CHANGE},
    "reset": {"bucket": {"user": "alice", "client-id": "app"}, **_CHANGE},
    "callback": {
        "callback": {"class": "a.B", "configs": {"x": "1"}},
        "altered_configs": ["x"],
        "cancelled": False,
        **_CHANGE,
    },
    "cluster": {"cluster": {"topics": {"t": [1, None]}}, **_CHANGE},
    "position": {"0": {"offset": 5, "maybe_until": 7}},
}
"""A record of each type with all of its fields."""

_NASTY = [
    "null", "true", "{}", "[]", '""', '"\\u0000"', '"\\ud800"', '"2026"', '"' + "x" * 33_000 + '"',
    '"\\u001b[31m\\u009b"', '"\x1b[31m\x9b"', '{"\\u001b[31m\x9b": 1}',
    "0", "-0.0", "-1", "1.5", "1e308", "-1e308", "1e400", "1e-400", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "1" + "0" * 30, "1" * 5000, "NaN", "Infinity",
    "[null]", "[[[]]]", '[""]', "[0, 0, 0]", '{"": null}', '{"a": {"a": 1}}', "[" * 1000 + "]" * 1000,
]  # fmt: skip
"""Values as JSON, some of which are no JSON."""

_NO_RECORD = [
    b"", b" ", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf{}", b"null", b"[]", b"{}", b'"', b"[" * 100_000, b'{"a":' * 50_000,
    b'{"entity":' * 50_000, b'{"shadow":{"outcome":"X"}}', b"5" * 100_000,
]  # fmt: skip


def _variants(valid: dict[str, Any]) -> Iterator[bytes]:
    """Yield variants of a record; some are valid, as a value fits or an unknown field is ignored."""
    whole = json.dumps(valid).encode()
    for path in _paths(valid):
        yield json.dumps(_changed(valid, path, ...)).encode()
        mark = "\x01mark"
        before, after = json.dumps(_changed(valid, path, mark)).split(json.dumps(mark))
        for value in _NASTY:
            yield f"{before}{value}{after}".encode()
        if isinstance(path[-1], str):
            for value in ("null", "1", "{}"):
                yield f"{before}{value}, {json.dumps(path[-1])}: {value}{after}".encode()
    for end in range(0, len(whole), 7):
        yield whole[:end]
        yield whole[:end] + b"\xff" + whole[end + 1 :]


def all_malformed() -> list[bytes]:
    """Return the variants of records of all types."""
    return [*_NO_RECORD, *(value for kind in RECORDS for value in _variants(RECORDS[kind]))]


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        yield from _paths(part, (*path, step))


def _changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """Return a copy with another value at a path; without the path for `...`."""
    step, *further = path
    copy = dict(value) if isinstance(value, Mapping) else list(value)
    if further:
        copy[step] = _changed(copy[step], tuple(further), new)
    elif new is ...:
        del copy[step]
    else:
        copy[step] = new
    return copy
