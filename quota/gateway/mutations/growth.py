"""CreatePartitions: it costs the partitions that are added to those that the cluster has."""

from quota.gateway.api_keys import ErrorCode
from quota.gateway.mutations.existing import describe
from quota.gateway.mutations.operations import Answer, Check, Checked, ValidatedOperation, content_digest
from quota.records.request import TopicMutation


class Growth(ValidatedOperation):
    """CreatePartitions: a topic costs the partitions that are added."""

    results = "results"

    def check(self) -> Check:
        """Ask the cluster to validate, and for the present numbers of partitions."""
        failed, valid, throttle_ms = yield from self.validate(self._request.version)
        names = [each["name"] for each in self._request.message["topics"] if each["name"] in valid]
        if not names:
            return Checked([], failed, throttle_ms)
        known = yield from describe(names=names)
        present = {each["name"]: each for each in known}
        self._topics = [each for each in self._request.message["topics"] if each["name"] in present]
        costs, steps = [], []
        for each in self._topics:
            found = present[each["name"]]
            count = len(found["partitions"])
            costs.append(TopicMutation(each["name"], max(each["count"] - count, 0), count=each["count"]))
            steps.append((found["topicId"], count, each["count"]))
        failed += [_unknown(name) for name in names if name not in present]
        return Checked(costs, failed, throttle_ms, once=True, content=content_digest(self._request, steps))


def _unknown(name: str) -> Answer:
    """Return the answer for a topic that was deleted after it was validated."""
    message = "This server does not host this topic-partition."
    return {"name": name, "errorCode": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "errorMessage": message}
