"""CreatePartitions: it costs the partitions that are added to those that the cluster has."""

from dataclasses import replace
from operator import itemgetter
from typing import Any

from quota.gateway.mutations.existing import describe, lag_ms, query_controller, unresolved
from quota.gateway.mutations.operations import Check, Checked, TopicResponse, ValidatedOperation, content_digest
from quota.gateway.mutations.recent import NO_ID
from quota.records.request import TopicMutation
from quota.wire.api_keys import KafkaErrorCode

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
    failed = {"errorCode": int(KafkaErrorCode.INVALID_PARTITIONS), "errorMessage": sentence}
    return {"throttleTimeMs": 0, Growth.results: [{"name": each["name"], **failed} for each in message["topics"]]}


class Growth(ValidatedOperation):
    """CreatePartitions: a topic costs the partitions that are added."""

    results = "results"

    def check(self) -> Check:
        """Have the cluster validate the request, and look up the current numbers of partitions."""
        failed, valid, throttle_ms = yield from self.validate(self._request.version)
        names = [each["name"] for each in self._request.message["topics"] if each["name"] in valid]
        if not names:
            return Checked([], failed, throttle_ms)
        wait_ms = lag_ms(self._request.message["timeoutMs"])  # the controller knows them
        known = yield from describe(self._recent, self._now, names=names, wait_ms=wait_ms)
        self._present = {each.name: each for each in known}
        self._topics = [each for each in self._request.message["topics"] if each["name"] in self._present]
        costs, steps = [], []
        for each in self._topics:
            present = self._present[each["name"]]
            costs.append(TopicMutation(each["name"], max(each["count"] - present.partitions, 0), count=each["count"]))
            steps.append((present.topic_id, present.partitions, each["count"]))
        results = yield from query_controller([name for name in names if name not in self._present])
        failed += map(unresolved, results.values())
        once = all(topic_id != NO_ID for topic_id, _, _ in steps)
        return Checked(costs, failed, throttle_ms, once, content_digest(self._request, steps))

    def remember(self, results: list[TopicResponse]) -> None:
        """Remember the topics grown."""
        grown = {each["name"] for each in results if not each["errorCode"]}
        for each in self._topics:
            if each["name"] in grown:
                topic = replace(self._present[each["name"]], partitions=each["count"])
                self._recent.record(topic, self._now)
