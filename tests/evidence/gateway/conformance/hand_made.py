"""Hand-made requests, a case for each user: all versions, requests that few clients send, and what is offered."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from quota.wire.protocol import ApiKey
from tests.evidence.gateway.conformance.program import Difference, Observation, Program, on_both
from tests.evidence.gateway.conformance.sides import Side, Sides
from tests.evidence.gateway.ground import password_of
from tests.evidence.gateway.requests import (
    CREATE,
    DELETE,
    GROW,
    METADATA,
    Request,
    create,
    delete,
    grow,
    metadata,
)
from tests.support.gateway import protocol
from tests.support.wire.requests import NO_ID
from tests.support.wire.requests import topic as new_topic
from tests.support.wire_client import Message, WireClient

Case = Callable[[WireClient, Side], list[Observation]]
"""Plays a case on a connection of a user with a full bucket."""

VERSIONS = [*product((CREATE,), range(2, 8)), *product((GROW,), range(4)), *product((DELETE,), range(1, 7))]
"""All versions of the requests that change topics, by their keys."""
_NAMES = {CREATE: "CreateTopics", GROW: "CreatePartitions", DELETE: "DeleteTopics"}
_OVERDRAWN, _FAILING, _AFTERWARDS = "overdrawn by 8", "in debt, with topics that fail", "Metadata, right after"
_ALONE, _OFFERED = "with a full bucket", "which versions are offered"
_OFFERS = {
    ApiKey.PRODUCE: "Produce",
    ApiKey.FETCH: "Fetch",
    ApiKey.METADATA: "Metadata",
    ApiKey.SASL_HANDSHAKE: "SaslHandshake",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    88: "StreamsGroupHeartbeat",
}
"""Names of the APIs whose versions are shown, by key: those whose old or new versions the gateway has to translate."""

_VALIDATE_ONLY = "`validate_only`"

DIFFERENCES = {
    ("validate growing", _ALONE): Difference(_VALIDATE_ONLY, "odd-present: ok", "odd-present: ok", throttle=True),
}


def _cases(pair: Sides, side: Side) -> list[Callable[[str], list[Observation]]]:
    """Return the cases, each of which authenticates its user."""
    versions = [lambda client, side, request=request: _one_version(client, side, *request) for request in VERSIONS]
    odd = [
        lambda client, side, request=request: [ask(client, side, request.name, replace(request, name=_ALONE))]
        for request in _odd(side)
    ]

    def authenticated(case: Case) -> Callable[[str], list[Observation]]:
        def play(user: str) -> list[Observation]:
            with pair.ground.connect(side.port) as client:
                client.authenticate(user, password_of(user))
                return case(client, side)

        return play

    special = [_by_id, _pipelined, _short_lived, _offered]
    return [authenticated(case) for case in (*versions, *odd, *special)]


def _topics() -> dict[str, int]:
    """Return the topics that are grown and deleted, with the numbers of their partitions."""
    topics = {"raw-by-id-a": 11, "raw-by-id-b": 3, "pipelined-grown": 1, "pipelined-deleted": 2}
    topics |= {"odd-present": 1}
    for key, version in VERSIONS:
        counts = {GROW: (1, 1), DELETE: (11, 3)}.get(key, ())
        topics |= {f"{_NAMES[key]}-v{version}-{part}": count for part, count in zip("ab", counts, strict=False)}
    return topics


def overdrawing(side: Side, key: int, version: int) -> list[Request]:
    """Return a request that overdraws a bucket of 3 by 8, and one in debt, for topics that fail anyway too."""
    a, b, none = (side.topic(f"{_NAMES[key]}-v{version}-{part}") for part in ("a", "b", "none"))
    if key == CREATE:
        bad = new_topic(side.topic("bad/name"), 1)
        return [
            create(_OVERDRAWN, version, new_topic(a, 11)),
            create(_FAILING, version, new_topic(a, 1), bad, new_topic(b, 3)),
        ]
    if key == GROW:
        return [grow(_OVERDRAWN, version, (a, 12)), grow(_FAILING, version, (a, 2), (none, 3), (b, 4))]
    return [delete(_OVERDRAWN, version, a), delete(_FAILING, version, none, b)]


def _one_version(client: WireClient, side: Side, key: int, version: int) -> list[Observation]:
    """Overdraw, then send a request in debt, then one while muted."""
    requests = [*overdrawing(side, key, version), metadata(_AFTERWARDS)]
    return [ask(client, side, f"{_NAMES[key]} v{version}", request) for request in requests]


def _by_id(client: WireClient, side: Side) -> list[Observation]:
    a, b = side.topic("raw-by-id-a"), side.topic("raw-by-id-b")
    known = metadata("", a, b).call(client)
    ids = {topic["name"]: topic["topicId"] for topic in known["topics"]}
    requests = (
        delete(_OVERDRAWN, 6, ids[a]),
        delete("in debt, with an unknown id", 6, b"\1" * 16, ids[b]),
        metadata(_AFTERWARDS),
    )
    return [ask(client, side, "DeleteTopics v6, by id", request) for request in requests]


def _pipelined(client: WireClient, side: Side) -> list[Observation]:
    a, b, grown, deleted = (side.topic(f"pipelined-{name}") for name in ("a", "b", "grown", "deleted"))
    requests = (
        metadata("1 Metadata"),
        create("2 CreateTopics, overdrawn by 8", 7, new_topic(a, 11)),
        metadata("3 Metadata"),
        create("4 CreateTopics in debt", 7, new_topic(b, 1)),
        metadata("5 Metadata, muted"),
        grow("6 CreatePartitions, overdrawn by about 4", 3, (grown, 5)),
        delete("7 DeleteTopics in debt", 6, deleted),
        metadata("8 Metadata, muted"),
    )
    return ask_at_once(client, side, "eight requests written at once", requests)


def _odd(side: Side) -> list[Request]:
    present = side.topic("odd-present")
    return [
        create("create nothing", 7),
        create("defaults, in a version without them", 2, new_topic(side.topic("odd-d"), -1, -1)),
        create("a time limit of 0", 7, new_topic(side.topic("odd-e"), 1)).with_fields(timeoutMs=0),
        create("validate only", 4, new_topic(side.topic("odd-f"), 1)).with_fields(validateOnly=True),
        grow("grow nothing", 3),
        grow("validate growing", 1, (present, 20)).with_fields(validateOnly=True),
        delete("delete one twice", 6, present, present),
        delete("delete by a null name and no id", 6, NO_ID),
        delete("delete nothing", 6),
    ]


def _short_lived(client: WireClient, side: Side) -> list[Observation]:
    """Create, grow and delete a topic without waiting: brokers' metadata may not know it yet, the controller does."""
    name = side.topic("odd-short-lived")
    requests = (
        create("create", 7, new_topic(name, 1)),
        grow("grow", 3, (name, 12)),
        delete("delete, in debt", 6, name),
    )
    return ask_at_once(client, side, "created, grown and deleted at once", requests)


def _offered(client: WireClient, _: Side) -> list[Observation]:
    """Return the versions of the APIs that differ on purpose, and those of all others; the same of features.

    Only those that the gateway's release of Kafka has: a broker of an earlier one still offers older versions.
    """
    sent = time.monotonic() * 1000
    answer = client.call(ApiKey.API_VERSIONS, 4, {"clientSoftwareName": "proof", "clientSoftwareVersion": "1"})
    received = time.monotonic() * 1000
    offered = {}
    for api in answer["apiKeys"]:
        if known := protocol().apis.get(api["apiKey"]):
            first, last = api["minVersion"], min(api["maxVersion"], known.max_version)
            if known.key != ApiKey.PRODUCE:  # whose version 0 each broker names, and none has
                first = max(first, known.min_version)
            offered[known.key] = f"{first} to {last}"
    seen = {name: (offered.pop(key, "not offered"), "") for key, name in _OFFERS.items()}
    others = ", ".join(f"{key}: {versions}" for key, versions in sorted(offered.items()))
    seen["all others"] = f"{len(offered)} APIs", others
    features = {feature["name"]: feature["maxVersionLevel"] for feature in answer["finalizedFeatures"]}
    seen["transaction.version"] = str(features.pop("transaction.version", None)), ""
    seen["other features"] = ", ".join(f"{name} {level}" for name, level in sorted(features.items())), ""
    return [Observation(_OFFERED, name, text, sent, received, None, detail) for name, (text, detail) in seen.items()]


HAND_MADE = Program(
    "hand-made requests",
    users=29,
    play=on_both(_cases),
    topics=_topics(),
    differences=DIFFERENCES,
)


_RESULTS = {CREATE: "topics", GROW: "results", DELETE: "responses"}


def ask(client: WireClient, side: Side, case: str, request: Request) -> Observation:
    """Send a request, and return the observation of its answer."""
    (seen,) = ask_at_once(client, side, case, [request])
    return seen


def ask_at_once(client: WireClient, side: Side, case: str, requests: Sequence[Request]) -> list[Observation]:
    """Write requests at once, and return the observations of their answers."""
    sent = client.write(b"".join(client.frame(request.key, request.version, request.message) for request in requests))
    seen = []
    for request in requests:
        answer, received = client.read()
        seen.append(observed(side, case, request, answer, (sent, received)))
    return seen


def observed(side: Side, case: str, request: Request, answer: Message, at: tuple[float, float]) -> Observation:
    """Return what is seen of an answer; the order of its topics is that of a hash map, and does not count."""
    throttle = answer["throttleTimeMs"]
    if request.key == METADATA:
        topics = sorted(answer["topics"], key=lambda topic: topic["name"])
        seen = ", ".join(f"{topic['name']}: {len(topic['partitions'])} partitions" for topic in topics) or "answered"
        return Observation(case, request.name, side.plain(seen), *at, throttle)
    field = _RESULTS[request.key]
    results = sorted(answer[field], key=lambda result: result["name"] or "")
    masked = _masked({**answer, field: results, "throttleTimeMs": 0})
    detail = side.plain(json.dumps(masked, sort_keys=True))
    return Observation(case, request.name, side.plain(_results_in(results)), *at, throttle, detail)


def _results_in(results: Sequence[Message]) -> str:
    said = []
    for result in results:
        message = result.get("errorMessage", "no field")
        error = f"{result['errorCode']} {message}" if result["errorCode"] else "ok"
        said.append(f"{result['name'] or ('an id' if any(result.get('topicId', NO_ID)) else None)}: {error}")
    return "; ".join(said) or "nothing"


def _masked(value: object) -> object:
    """Return an answer in which each id is replaced by a text that shows whether it is set."""
    if isinstance(value, dict):
        return {name: _masked(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_masked(part) for part in value]
    if isinstance(value, bytes):
        return "an id" if any(value) else "no id"
    return value
