"""CreateTopics: a topic costs its partitions; the cluster validates the request before they are charged."""

from typing import Any

from quota.gateway.mutations.operations import (
    Charged,
    Check,
    Checked,
    ClientRequest,
    TopicResponse,
    content_digest,
    validate,
)
from quota.gateway.mutations.recent import NO_ID, ExistingTopic
from quota.records.request import TopicMutation

_WITH_DEFAULT_PARTITIONS = 5
"""The first version whose response has the number of partitions."""


def check_creation(request: ClientRequest, default_partitions: int) -> Check:
    """Ask the cluster to validate; its response has the cluster's default number of partitions."""
    topics = request.message["topics"]
    by_default = any(topic["numPartitions"] < 0 and not topic["assignments"] for topic in topics)
    version = max(request.version, _WITH_DEFAULT_PARTITIONS) if by_default else request.version
    failed, valid, throttle_ms = yield from validate(request, version, topics)
    charged = []
    for topic in topics:
        name = topic["name"]
        if name in valid:
            cost = _cost(topic, valid[name], default_partitions)
            charged.append(Charged(topic, TopicMutation(name, cost), ExistingTopic(name, NO_ID, cost)))
    content = content_digest(request, [each.requested for each in charged])
    return Checked(charged, failed, throttle_ms, content=content)


def _cost(topic: dict[str, Any], validated: TopicResponse, default_partitions: int) -> int:
    if topic["assignments"]:
        return len(topic["assignments"])
    if topic["numPartitions"] > 0:
        return int(topic["numPartitions"])
    partitions = validated.get("numPartitions", -1)  # hidden from clients that may not describe the topic's configs
    return int(partitions) if partitions > 0 else default_partitions
