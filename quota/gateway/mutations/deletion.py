"""DeleteTopics, by names or by ids: it costs the partitions that the topics have."""

from collections import Counter
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from quota.gateway.mutations.existing import (
    SHORT_LAG_MS,
    Identity,
    describe,
    exists,
    lag_ms,
    query_controller,
    unresolved,
)
from quota.gateway.mutations.operations import (
    BrokerCall,
    Check,
    Checked,
    ClientRequest,
    MutationOperation,
    Pause,
    TopicResponse,
    content_digest,
)
from quota.gateway.mutations.recent import NO_ID, ExistingTopic, RecentTopics
from quota.records.request import TopicMutation
from quota.wire.api_keys import KafkaErrorCode

_DELETED_UNCHARGED = frozenset({KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""The controller's errors for a topic that does not exist, or that the client may not alter: its deletion is forwarded
uncharged."""


class Deletion(MutationOperation):
    """DeleteTopics: a topic costs the partitions that it has.

    The cluster cannot validate a deletion. Topics that it would refuse, because they do not exist, may not be deleted
    or are named twice, are forwarded uncharged and get the cluster's own error. They are forwarded before the decision
    is awaited, since such a topic could be created in the meantime.
    """

    results = "responses"

    def __init__(self, request: ClientRequest, default_partitions: int, recent: RecentTopics, now: int) -> None:
        """Create the operation; see `MutationOperation`."""
        super().__init__(request, default_partitions, recent, now)
        self._field = "topicNames" if "topicNames" in request.message else "topics"
        self._found: list[ExistingTopic] = []
        """The topics that are charged."""

    def check(self) -> Check:
        """Look up the topics, their partitions, and whether the client may delete them."""
        wanted = [(each, _identity(each)) for each in self._request.message[self._field]]
        known, unknown = yield from self._find({identity for _, identity in wanted})
        times = Counter((known[each].name, each[0] is None) for _, each in wanted if each in known)
        costs, uncharged = [], []
        for each, identity in wanted:
            if identity in unknown:
                continue
            topic = known.get(identity)
            if topic is not None and _is_deleted(topic.name, times, by_id=identity[0] is None):
                self._topics.append(each)
                self._found.append(topic)
                costs.append(TopicMutation(topic.name, topic.partitions))
            else:
                uncharged.append(each)
        failed, throttle_ms = list(unknown.values()), 0
        if uncharged:
            response = yield BrokerCall(
                self._request.key, self._request.version, self._with(0, **{self._field: uncharged})
            )
            failed, throttle_ms = [*failed, *response[self.results]], response["throttleTimeMs"]
        ids = [each.topic_id for each in self._found]
        content = content_digest(self._request, ids if NO_ID not in ids else [each.name for each in self._found])
        return Checked(costs, failed, throttle_ms, NO_ID not in ids, content)

    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request with the admitted topics."""
        topics = [topic for index, topic in enumerate(self._topics) if index in admitted]
        return self._with(waited_ms, **{self._field: topics}) if topics else None

    def refuse(self, index: int, error: int, message: str | None) -> TopicResponse:
        """Return the result of a refused topic, with both name and id as from a broker, whichever the request had."""
        topic = self._found[index]
        return {"name": topic.name, "topicId": topic.topic_id, "errorCode": int(error), "errorMessage": message}

    def remember(self, results: list[TopicResponse]) -> None:
        """Forget the topics deleted."""
        deleted = {each["name"] for each in results if not each["errorCode"]}
        deleted |= {
            each["topicId"] for each in results if not each["errorCode"] and each.get("topicId", NO_ID) != NO_ID
        }
        for each in self._found:
            if each.name in deleted or each.topic_id in deleted:
                self._recent.forget(each.name)

    def _find(
        self, wanted: AbstractSet[Identity]
    ) -> Generator[
        BrokerCall | Pause, dict[str, Any], tuple[dict[Identity, ExistingTopic], dict[Identity, TopicResponse]]
    ]:
        """Return the topics that the client may delete, and the error results of those whose cost is not known in time.

        Only topics given by name alone or by id alone are looked up. The controller is queried for names that the
        broker does not know; it does not accept ids.
        """
        names = sorted(name for name, topic_id in wanted if name is not None and topic_id == NO_ID)
        ids = sorted(topic_id for name, topic_id in wanted if name is None and topic_id != NO_ID)
        by_name = yield from describe(self._recent, self._now, names=names)
        found = {each.name for each in by_name}
        results = yield from query_controller([name for name in names if name not in found])
        exist = [name for name, response in results.items() if exists(response)]
        unsure = [
            name
            for name, response in results.items()
            if response["errorCode"] == KafkaErrorCode.TOPIC_AUTHORIZATION_FAILED
        ]
        wait_ms = lag_ms(self._request.message["timeoutMs"])
        by_name += yield from describe(self._recent, self._now, names=exist, wait_ms=wait_ms)
        by_name += yield from describe(self._recent, self._now, names=unsure, wait_ms=SHORT_LAG_MS)
        by_id = yield from describe(self._recent, self._now, ids=ids, wait_ms=SHORT_LAG_MS)
        known: dict[Identity, ExistingTopic] = {(each.name, NO_ID): each for each in by_name if each.may_delete}
        known |= {(None, each.topic_id): each for each in by_id if each.may_delete}
        found = {each.name for each in by_name}
        unknown: dict[Identity, TopicResponse] = {
            (name, NO_ID): {**unresolved(response), "topicId": NO_ID}
            for name, response in results.items()
            if name not in found and response["errorCode"] not in _DELETED_UNCHARGED
        }
        return known, unknown


def _is_deleted(name: str, times: Mapping[tuple[str, bool], int], *, by_id: bool) -> bool:
    """Return whether Kafka deletes a topic for one reference to it, by name or by id.

    A name that is given twice is ignored, and a topic that is given both by name and by id is not deleted.

    Args:
        name: the topic.
        times: the number of references to each topic, by (name, whether by id).
        by_id: whether this reference is by id.
    """
    names, ids = times[name, False], times[name, True]
    return ids == 1 and names != 1 if by_id else names == 1 and ids == 0


def _identity(topic: str | dict[str, Any]) -> Identity:
    return (topic, NO_ID) if isinstance(topic, str) else (topic["name"], topic["topicId"])
