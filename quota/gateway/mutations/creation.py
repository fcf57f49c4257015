"""CreateTopics: a topic costs its partitions; the cluster validates the request before they are charged."""

import logging
from collections.abc import Callable, Generator
from typing import Any

from quota.gateway.context import GatewayContext
from quota.gateway.memory import NO_ID, ExistingTopic
from quota.gateway.mutations.lookup import SHORT_LAG_MS, describe
from quota.gateway.operations import (
    RESULTS,
    BrokerCall,
    Charged,
    Check,
    Checked,
    ClientRequest,
    Pause,
    TopicResponse,
    content_digest,
    validate,
)
from quota.records.request import TopicMutation

_log = logging.getLogger(__name__)

_WITH_DEFAULT_PARTITIONS = 5
"""The first version whose response has the number of partitions."""


def check_creation(request: ClientRequest, context: GatewayContext, _: Callable[[], int]) -> Check:
    """Ask the cluster to validate; its response has the cluster's default number of partitions."""
    topics = request.message["topics"]
    by_default = any(_is_by_default(topic) for topic in topics)
    version = max(request.version, _WITH_DEFAULT_PARTITIONS) if by_default else request.version
    failed, valid, throttle_ms = yield from validate(request, version, topics)
    charged = []
    for topic in topics:
        name = topic["name"]
        if name in valid:
            told = _partitions(topic, valid[name])
            if _is_by_default(topic) and told is not None:
                _learn(context, told)
            cost = told or context.default_partitions or context.assumed_partitions
            created = ExistingTopic(name, NO_ID, cost)
            charged.append(Charged(topic, TopicMutation(name, cost), created, is_estimated=told is None))
    content = content_digest(request, [mutation.requested for mutation in charged])
    return Checked(charged, failed, throttle_ms, content=content)


def create(
    request: ClientRequest, admitted: list[Charged], context: GatewayContext, now: int
) -> Generator[BrokerCall | Pause, Any, dict[str, Any]]:
    """Create topics; return the cluster's response.

    A client that may not describe the configs of topics is not told the default number of partitions, but it may see
    that of a topic that has been created.
    """
    message = request.reduced([mutation.requested for mutation in admitted], now)
    response: dict[str, Any] = yield BrokerCall(request.key, request.version, message)
    created = {result["name"]: result for result in response[RESULTS[request.key]] if not result["errorCode"]}
    estimated = [
        mutation.topic.name for mutation in admitted if mutation.is_estimated and mutation.topic.name in created
    ]
    wait_ms = SHORT_LAG_MS if context.default_partitions is None else 0
    described = yield from describe(context.recent, now, names=estimated, wait_ms=wait_ms)
    seen = {topic.name: topic.partitions for topic in described.topics}
    for partitions in seen.values():
        _learn(context, partitions)
    for topic in (mutation.topic for mutation in admitted if mutation.topic.name in created):
        topic_id, partitions = created[topic.name].get("topicId", NO_ID), seen.get(topic.name, topic.partitions)
        context.recent.record(ExistingTopic(topic.name, topic_id, partitions), now)
    return response


def _is_by_default(topic: dict[str, Any]) -> bool:
    return topic["numPartitions"] < 0 and not topic["assignments"]


def _partitions(topic: dict[str, Any], validated: TopicResponse) -> int | None:
    """Return the number of partitions of a topic; None if the client is not told the default number."""
    if not _is_by_default(topic):
        return len(topic["assignments"]) or int(topic["numPartitions"])
    partitions: int = validated.get("numPartitions", -1)
    return partitions if partitions > 0 else None


def _learn(context: GatewayContext, partitions: int) -> None:
    if partitions not in {context.default_partitions, context.assumed_partitions}:
        _log.warning(
            "the brokers create topics with %d partitions by default (num.partitions), and gateway.default_partitions "
            "is %d: clients that may not describe configs were charged for that; from now on for %d",
            partitions,
            context.assumed_partitions,
            partitions,
        )
    context.default_partitions = partitions
