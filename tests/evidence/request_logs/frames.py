"""Requests written by hand: in each version, and such as client libraries do not send."""

import base64
import time
import uuid
from typing import Any

from jobs.sandbox.broker import HOST
from quota.wire.protocol import Protocol
from tests.evidence.request_logs.calls import Answer, Call, Operation, Topic, TopicAnswer
from tests.evidence.request_logs.cluster import Cluster
from tests.support.wire_client import WireClient

_RESULTS = {Operation.CREATE: "topics", Operation.DELETE: "responses", Operation.GROW: "results"}
KEYS = {Operation.CREATE: 19, Operation.DELETE: 20, Operation.GROW: 37}
_IDS_SINCE = 6
"""The first version of DeleteTopics with topic ids."""
_METADATA, _METADATA_VERSION = 3, 4


class FrameClient:
    """A client that writes its requests to one node by hand."""

    kind = "frames"
    principal = "User:ANONYMOUS"

    def __init__(self, cluster: Cluster, client_id: str | None, *, at_controller: bool = True) -> None:
        """Connect to the controller, or to another broker.

        With KRaft, brokers name any broker as the controller, and that broker forwards the requests.
        """
        self.client_id = client_id
        ports = {each.id: each.port for each in cluster.brokers}
        with WireClient((HOST, cluster.brokers[0].port), cluster.protocol, "finder") as finder:
            asked = {"topics": [], "allowAutoTopicCreation": False}
            controller = finder.call(_METADATA, _METADATA_VERSION, asked)["controllerId"]
        node = controller if at_controller else next(each for each in ports if each != controller)
        self._wire = WireClient((HOST, ports[node]), cluster.protocol, client_id)
        self._protocol = cluster.protocol

    def versions(self, operation: Operation) -> range:
        """Return the versions of an operation's request that the cluster supports."""
        return _versions(self._protocol, operation)

    def ask(self, call: Call, version: int | None = None) -> Answer:
        """Send a request, by the newest version if none is given, and wait for the answer."""
        self.send(call, version)
        return self.receive()

    def send(self, call: Call, version: int | None = None) -> None:
        """Send a request."""
        self._version = self.versions(call.operation)[-1] if version is None else version
        frame = self._wire.frame(KEYS[call.operation], self._version, _message(call, self._version))
        self._operation = call.operation
        self._sent = _now()
        self._wire.write(frame)

    def receive(self) -> Answer:
        """Wait for the answer to the request that was sent."""
        answer, _ = self._wire.read()
        topics = tuple(map(_outcome, answer[_RESULTS[self._operation]]))
        return Answer(self._sent, _now(), topics, answer.get("throttleTimeMs"), self._version)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def _versions(protocol: Protocol, operation: Operation) -> range:
    api = protocol.apis[KEYS[operation]]
    return range(api.min_version, api.max_version + 1)


def _message(call: Call, version: int) -> dict[str, Any]:
    message: dict[str, Any] = {"timeoutMs": call.timeout_ms}
    if call.operation is Operation.DELETE:
        if version >= _IDS_SINCE:
            return message | {"topics": [_deleted(each) for each in call.topics]}
        return message | {"topicNames": [each.name for each in call.topics]}
    created = call.operation is Operation.CREATE
    if not created or version > 0:
        message["validateOnly"] = call.validate_only
    return message | {"topics": [_created(each) if created else _grown(each) for each in call.topics]}


def _deleted(topic: Topic) -> dict[str, Any]:
    return {"name": topic.name, "topicId": bytes(16) if topic.id is None else id_bytes(topic.id)}


def _created(topic: Topic) -> dict[str, Any]:
    if topic.assignments is not None:
        assignments = [{"partitionIndex": n, "brokerIds": ids} for n, ids in enumerate(topic.assignments)]
        return {"name": topic.name, "numPartitions": -1, "replicationFactor": -1, "assignments": assignments}
    count = -1 if topic.asked is None else topic.asked
    return {"name": topic.name, "numPartitions": count, "replicationFactor": topic.replication or -1}


def _grown(topic: Topic) -> dict[str, Any]:
    ids = None if topic.assignments is None else [{"brokerIds": each} for each in topic.assignments]
    return {"name": topic.name, "count": topic.asked, "assignments": ids}


def _outcome(result: dict[str, Any]) -> TopicAnswer:
    found = result.get("topicId")
    return TopicAnswer(
        name=result["name"],
        error=result["errorCode"],
        message=result.get("errorMessage"),
        id=id_text(found) if found and any(found) else None,
        partitions=result.get("numPartitions"),
    )


def id_text(data: bytes) -> str:
    """Return a topic id in Kafka's text form: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a topic id."""
    return base64.urlsafe_b64decode(text + "==")


def unknown_id() -> str:
    """Return an id that no topic has."""
    return id_text(uuid.uuid4().bytes)


def _now() -> int:
    return round(time.time() * 1000)
