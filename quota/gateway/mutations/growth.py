"""CreatePartitions: a topic costs the partitions that are added to those that the cluster has."""

from dataclasses import replace
from operator import itemgetter
from typing import Any

from quota.errors import ErrorCode
from quota.gateway.mutations.existing import describe, lag_ms, query_controller, unresolved
from quota.gateway.mutations.operations import RESULTS, Charged, Check, Checked, ClientRequest, content_digest, validate
from quota.gateway.mutations.recent import NO_ID, RecentTopics
from quota.records.request import TopicMutation
from quota.wire.api_keys import ApiKey

_MAX_COUNT = 100_000
"""The maximum partition count that is forwarded: a KRaft controller allocates memory for each partition, even to
validate, and crashes if it runs out of memory."""
_MAX_COUNTS = 1_000_000
"""The maximum sum of the counts in a request."""


def excess(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error response to a request for an excessive number of partitions, or None."""
    largest = max(message["topics"], key=itemgetter("count"), default=None)
    together = sum(each["count"] for each in message["topics"] if each["count"] > 0)
    if largest is None or (largest["count"] <= _MAX_COUNT and together <= _MAX_COUNTS):
        return None
    sentence = (
        f"topic {largest['name']} would have {largest['count']} partitions, and all topics of this request {together}; "
        f"more than {_MAX_COUNT} or {_MAX_COUNTS} can exhaust the controller's memory, so the request is not forwarded"
    )
    failed = {"errorCode": int(ErrorCode.INVALID_PARTITIONS), "errorMessage": sentence}
    results = [{"name": topic["name"], **failed} for topic in message["topics"]]
    return {"throttleTimeMs": 0, RESULTS[ApiKey.CREATE_PARTITIONS]: results}


def check_growth(request: ClientRequest, recent: RecentTopics, now: int) -> Check:
    """Have the cluster validate the request, and look up the current numbers of partitions."""
    failed, valid, throttle_ms = yield from validate(request, request.version)
    topics = [topic for topic in request.message["topics"] if topic["name"] in valid]
    if not topics:
        return Checked([], failed, throttle_ms)
    names = [topic["name"] for topic in topics]
    wait_ms = lag_ms(request.message["timeoutMs"])  # the controller knows them
    known = yield from describe(recent, now, names=names, wait_ms=wait_ms)
    present_by_name = {each.name: each for each in known}
    charged, steps = [], []
    for topic in topics:
        name, count = topic["name"], topic["count"]
        present = present_by_name.get(name)
        if present is not None:
            cost = TopicMutation(name, max(count - present.partitions, 0), count=count)
            charged.append(Charged(topic, cost, replace(present, partitions=count)))
            steps.append((present.topic_id, present.partitions, count))
    results = yield from query_controller([name for name in names if name not in present_by_name])
    failed += map(unresolved, results.values())
    once = all(topic_id != NO_ID for topic_id, _, _ in steps)
    return Checked(charged, failed, throttle_ms, once, content_digest(request, steps))
