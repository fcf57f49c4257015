"""CreateTopics: the cluster validates the request before its cost is charged."""

from typing import Any

from quota.gateway.mutations.operations import Check, Checked, TopicResponse, ValidatedOperation, content_digest
from quota.gateway.mutations.recent import NO_ID, ExistingTopic
from quota.records.request import TopicMutation

_WITH_DEFAULT_PARTITIONS = 5
"""The first version whose response has the number of partitions."""


class Creation(ValidatedOperation):
    """CreateTopics: a topic costs its partitions."""

    results = "topics"

    def check(self) -> Check:
        """Ask the cluster to validate; its response has the cluster's default number of partitions."""
        topics = self._request.message["topics"]
        by_default = any(each["numPartitions"] < 0 and not each["assignments"] for each in topics)
        version = max(self._request.version, _WITH_DEFAULT_PARTITIONS) if by_default else self._request.version
        failed, valid, throttle_ms = yield from self.validate(version)
        self._topics = [each for each in topics if each["name"] in valid]
        costs = [TopicMutation(each["name"], self._cost(each, valid[each["name"]])) for each in self._topics]
        self._partitions = {each.name: each.partitions for each in costs}
        return Checked(costs, failed, throttle_ms, content=content_digest(self._request, self._topics))

    def remember(self, results: list[TopicResponse]) -> None:
        """Remember the topics created."""
        for each in results:
            partitions = self._partitions.get(each["name"])
            if partitions is not None and not each["errorCode"]:
                topic = ExistingTopic(each["name"], each.get("topicId", NO_ID), partitions)
                self._recent.record(topic, self._now)

    def _cost(self, topic: dict[str, Any], validated: TopicResponse) -> int:
        if topic["assignments"]:
            return len(topic["assignments"])
        if topic["numPartitions"] > 0:
            return int(topic["numPartitions"])
        partitions = validated.get("numPartitions", -1)  # hidden from clients that may not describe the topic's configs
        return int(partitions) if partitions > 0 else self._default_partitions
