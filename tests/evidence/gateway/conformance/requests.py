"""Hand-written requests that create, grow and delete topics, and the observations of their responses."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.evidence.gateway.conformance.observation import Observation
from tests.evidence.gateway.conformance.sides import Side
from tests.support.wire_client import Message, WireClient

METADATA, CREATE, DELETE, GROW = 3, 19, 20, 37
METADATA_VERSION = 12
NO_ID = bytes(16)
_TIMEOUT_MS = 30_000
_RESULTS = {CREATE: "topics", GROW: "results", DELETE: "responses"}
_LAST_BY_NAMES = 5
"""The last version of DeleteTopics with a list of names alone."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `step` is its name within its case."""

    step: str
    key: int
    version: int
    message: Message

    def with_fields(self, **fields: object) -> "Request":
        """Return the request with other fields."""
        return replace(self, message=self.message | fields)


def new_topic(name: str, partitions: int, replicas: int = 1, **more: object) -> Message:
    """Return a topic of CreateTopics."""
    blank = {"name": name, "numPartitions": partitions, "replicationFactor": replicas, "assignments": [], "configs": []}
    return blank | more


def create(step: str, version: int, *topics: Message) -> Request:
    """Return a CreateTopics request."""
    message = {"topics": list(topics), "timeoutMs": _TIMEOUT_MS, "validateOnly": False}
    return Request(step, CREATE, version, message)


def grow(step: str, version: int, *counts: tuple[str, int]) -> Request:
    """Return a CreatePartitions request, given names and numbers of partitions."""
    topics = [{"name": name, "count": count, "assignments": None} for name, count in counts]
    return Request(step, GROW, version, {"topics": topics, "timeoutMs": _TIMEOUT_MS, "validateOnly": False})


def delete(step: str, version: int, *names: str, ids: Sequence[bytes] = ()) -> Request:
    """Return a DeleteTopics request, by names and, in version 6, by ids."""
    if version <= _LAST_BY_NAMES:
        return Request(step, DELETE, version, {"topicNames": list(names), "timeoutMs": _TIMEOUT_MS})
    topics = [{"name": each, "topicId": NO_ID} for each in names] + [{"name": None, "topicId": each} for each in ids]
    return Request(step, DELETE, version, {"topics": topics, "timeoutMs": _TIMEOUT_MS})


def metadata(step: str, *names: str, auto_create: bool = False) -> Request:
    """Return a Metadata request; without names it requests no topic."""
    topics = [{"name": each, "topicId": NO_ID} for each in names]
    return Request(step, METADATA, METADATA_VERSION, {"topics": topics, "allowAutoTopicCreation": auto_create})


def ask(client: WireClient, side: Side, case: str, request: Request) -> Observation:
    """Send a request, and return the observation of its answer."""
    (seen,) = ask_at_once(client, side, case, [request])
    return seen


def ask_at_once(client: WireClient, side: Side, case: str, requests: Sequence[Request]) -> list[Observation]:
    """Write requests at once, and return the observations of their answers."""
    sent = client.write(b"".join(client.frame(each.key, each.version, each.message) for each in requests))
    seen = []
    for request in requests:
        answer, received = client.read()
        seen.append(observed(side, case, request, answer, (sent, received)))
    return seen


def observed(side: Side, case: str, request: Request, answer: Message, at: tuple[float, float]) -> Observation:
    """Return what is seen of an answer; the order of its topics is that of a hash map, and does not count."""
    throttle = answer["throttleTimeMs"]
    if request.key == METADATA:
        found = sorted(answer["topics"], key=lambda each: each["name"])
        seen = ", ".join(f"{each['name']}: {len(each['partitions'])} partitions" for each in found) or "answered"
        return Observation(case, request.step, side.plain(seen), *at, throttle)
    field = _RESULTS[request.key]
    results = sorted(answer[field], key=lambda each: each["name"] or "")
    masked = _masked({**answer, field: results, "throttleTimeMs": 0})
    detail = side.plain(json.dumps(masked, sort_keys=True))
    return Observation(case, request.step, side.plain(_results_in(results)), *at, throttle, detail)


def _results_in(results: Sequence[Message]) -> str:
    said = []
    for each in results:
        message = each.get("errorMessage", "no field")
        error = f"{each['errorCode']} {message}" if each["errorCode"] else "ok"
        said.append(f"{each['name'] or ('an id' if any(each.get('topicId', NO_ID)) else None)}: {error}")
    return "; ".join(said) or "nothing"


def _masked(value: object) -> object:
    """Return an answer in which each id is replaced by a text that shows whether it is set."""
    if isinstance(value, dict):
        return {name: _masked(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if isinstance(value, bytes):
        return "an id" if any(value) else "no id"
    return value
