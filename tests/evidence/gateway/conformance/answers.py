"""The observations of responses to hand-made requests."""

import json
from collections.abc import Sequence

from tests.evidence.gateway.conformance.program import Observation
from tests.evidence.gateway.conformance.sides import Side
from tests.evidence.gateway.requests import CREATE, DELETE, GROW, METADATA, Request
from tests.support.wire.requests import NO_ID
from tests.support.wire_client import Message, WireClient

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
