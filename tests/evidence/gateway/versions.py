"""Requests in all versions: overdrawn, in debt and while muted; and a sequence that is written at once."""

from collections.abc import Callable

from tests.evidence.gateway.observation import Observation
from tests.evidence.gateway.requests import (
    CREATE,
    DELETE,
    GROW,
    METADATA,
    METADATA_VERSION,
    Request,
    ask,
    ask_at_once,
    create,
    delete,
    grow,
    metadata,
    new_topic,
)
from tests.evidence.gateway.sides import Side
from tests.support.wire_client import WireClient

_NAMES = {CREATE: "CreateTopics", GROW: "CreatePartitions", DELETE: "DeleteTopics"}
_OVERDRAWN = "overdrawn by 8 s"

VERSIONS = [(CREATE, each) for each in range(2, 8)] + [(GROW, each) for each in range(4)]
VERSIONS += [(DELETE, each) for each in range(1, 7)]

Case = Callable[[WireClient], list[Observation]]
"""Plays a case on a connection of a user with a full bucket."""


def cases(side: Side) -> list[Case]:
    """Return the cases of all versions, that of topic ids, and that of a sequence."""
    found: list[Case] = [
        lambda client, key=key, version=version: _one_version(client, side, key, version) for key, version in VERSIONS
    ]
    return [*found, lambda client: _by_id(client, side), lambda client: _pipelined(client, side)]


def prepared_topics(side: Side) -> dict[str, int]:
    """Return the topics that are grown and deleted, with the numbers of their partitions."""
    topics = {side.topic("by-id-a"): 11, side.topic("by-id-b"): 3}
    topics |= {side.topic("pipelined-grown"): 1, side.topic("pipelined-deleted"): 2}
    for key, version in VERSIONS:
        if key == GROW:
            topics |= {_name(side, key, version, part): 1 for part in "ab"}
        if key == DELETE:
            topics |= {_name(side, key, version, part): count for part, count in (("a", 11), ("b", 3))}
    return topics


def _name(side: Side, key: int, version: int, part: str) -> str:
    return side.topic(f"{_NAMES[key]}-v{version}-{part}")


def _one_version(client: WireClient, side: Side, key: int, version: int) -> list[Observation]:
    """Overdraw by 8, then send a request in debt, for topics that fail anyway too, then one while muted."""
    a, b, none = (_name(side, key, version, part) for part in ("a", "b", "none"))
    failing = "in debt, with topics that fail"
    requests: tuple[Request, Request]
    if key == CREATE:
        bad = side.topic("bad/name")
        requests = (
            create(_OVERDRAWN, version, new_topic(a, 11)),
            create(failing, version, new_topic(a, 1), new_topic(bad, 1), new_topic(b, 3)),
        )
    elif key == GROW:
        requests = grow(_OVERDRAWN, version, (a, 12)), grow(failing, version, (a, 2), (none, 3), (b, 4))
    else:
        requests = delete(_OVERDRAWN, version, a), delete(failing, version, none, b)
    case = f"{_NAMES[key]} v{version}"
    return [ask(client, side, case, each) for each in (*requests, metadata("Metadata, right after"))]


def _by_id(client: WireClient, side: Side) -> list[Observation]:
    a, b = side.topic("by-id-a"), side.topic("by-id-b")
    known = client.call(METADATA, METADATA_VERSION, metadata("", a, b).message)
    ids = {each["name"]: each["topicId"] for each in known["topics"]}
    requests = (
        delete(_OVERDRAWN, 6, ids=[ids[a]]),
        delete("in debt, with an unknown id", 6, ids=[b"\1" * 16, ids[b]]),
        metadata("Metadata, right after"),
    )
    return [ask(client, side, "DeleteTopics v6, by id", each) for each in requests]


def _pipelined(client: WireClient, side: Side) -> list[Observation]:
    a, b, grown, deleted = (side.topic(f"pipelined-{each}") for each in ("a", "b", "grown", "deleted"))
    requests = (
        metadata("1 Metadata"),
        create("2 CreateTopics, overdrawn by 8 s", 7, new_topic(a, 11)),
        metadata("3 Metadata"),
        create("4 CreateTopics in debt", 7, new_topic(b, 1)),
        metadata("5 Metadata, muted"),
        grow("6 CreatePartitions, overdrawn by about 6 s", 3, (grown, 7)),
        delete("7 DeleteTopics in debt", 6, deleted),
        metadata("8 Metadata, muted"),
    )
    return ask_at_once(client, side, "eight requests written at once", requests)
