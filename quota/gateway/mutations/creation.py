"""CreateTopics: a topic costs its partitions; the cluster validates the request before they are charged."""

import logging
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from quota.gateway.context import GatewayContext
from quota.gateway.memory import NO_ID, ExistingTopic
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
            cost = _partitions(topic, valid[name], context)
            charged.append(Charged(topic, TopicMutation(name, cost), ExistingTopic(name, NO_ID, cost)))
    content = content_digest(request, [mutation.requested for mutation in charged])
    return Checked(charged, failed, throttle_ms, content=content)


def create(
    request: ClientRequest, admitted: list[Charged], context: GatewayContext, now: int
) -> Generator[BrokerCall | Pause, Any, dict[str, Any]]:
    """Create topics; return the cluster's response."""
    message = request.reduced([mutation.requested for mutation in admitted], now)
    response: dict[str, Any] = yield BrokerCall(request.key, request.version, message)
    created = {result["name"]: result for result in response[RESULTS[request.key]] if not result["errorCode"]}
    for topic in (mutation.topic for mutation in admitted if mutation.topic.name in created):
        context.recent.record(replace(topic, topic_id=created[topic.name].get("topicId", NO_ID)), now)
    return response


def _is_by_default(topic: dict[str, Any]) -> bool:
    return topic["numPartitions"] < 0 and not topic["assignments"]


def _partitions(topic: dict[str, Any], validated: TopicResponse, context: GatewayContext) -> int:
    """Return the number of partitions of a topic.

    The default number is learned from the brokers alone: what a topic has may be the doing of any client.
    """
    if not _is_by_default(topic):
        return len(topic["assignments"]) or int(topic["numPartitions"])
    told = validated.get("numPartitions", -1)
    if told > 0:
        if told not in {context.default_partitions, context.assumed_partitions}:
            _log.warning(
                "the brokers create topics with %d partitions by default (num.partitions), and "
                "gateway.default_partitions is %d: clients that may not describe configs were charged for that; from "
                "now on for %d",
                told,
                context.assumed_partitions,
                told,
            )
        context.default_partitions = told
    elif context.default_partitions is None:
        _log.warning(
            "a client may not describe the configs of its topic, so the brokers' default number of partitions "
            "(num.partitions) is not known, and gateway.default_partitions=%d is charged until another client "
            "learns it from them; set it to that number",
            context.assumed_partitions,
        )
        context.default_partitions = context.assumed_partitions
    return context.default_partitions
