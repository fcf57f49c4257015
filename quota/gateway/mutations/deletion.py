"""DeleteTopics, by names or by ids: it costs the partitions that the topics have."""

from collections import Counter
from typing import Any

from quota.gateway.mutations.existing import NO_ID, describe
from quota.gateway.mutations.operations import Answer, Check, Checked, ClientRequest, MutationOperation, content_digest
from quota.records.request import TopicMutation


class Deletion(MutationOperation):
    """DeleteTopics: a topic costs the partitions that it has.

    The cluster cannot validate a deletion. What it would refuse, because the topic is not there or may not be deleted,
    goes on uncharged, and gets the cluster's own answer.
    """

    results = "responses"

    def __init__(self, request: ClientRequest, default_partitions: int) -> None:
        super().__init__(request, default_partitions)
        self._field = "topicNames" if "topicNames" in request.message else "topics"
        self._uncharged: list[Any] = []

    def check(self) -> Check:
        """Ask for the topics, their partitions, and whether the client may delete them."""
        wanted = [(each, *self._identity(each)) for each in self._request.message[self._field]]
        times = Counter((name, topic_id) for _, name, topic_id in wanted)
        once = [each for each in wanted if times[each[1:]] == 1]
        by_name = yield from describe(names=[name for _, name, _ in once if name is not None])
        by_id = yield from describe(ids=[topic_id for _, name, topic_id in once if name is None and any(topic_id)])
        known: dict[Any, Answer] = {each["topicId"]: each for each in by_id if each["authorized"]}
        known |= {each["name"]: each for each in by_name if each["authorized"]}
        costs, ids = [], []
        for each, name, topic_id in wanted:
            found = known.get(name if name is not None else topic_id)
            if found is None or times[name, topic_id] > 1 or found["topicId"] in ids:
                self._uncharged.append(each)
                continue
            self._topics.append(each)
            ids.append(found["topicId"])
            costs.append(TopicMutation(found["name"], len(found["partitions"])))
        return Checked(costs, once=True, content=content_digest(self._request, ids))

    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request with the admitted topics and those that are not charged."""
        topics = [topic for index, topic in enumerate(self._topics) if index in admitted] + self._uncharged
        return self._with(waited_ms, **{self._field: topics}) if topics else None

    def refuse(self, index: int, error: int, message: str | None) -> Answer:
        """Return the answer for a topic, by name or by id as it was asked for."""
        name, topic_id = self._identity(self._topics[index])
        return {"name": name, "topicId": topic_id, "errorCode": int(error), "errorMessage": message}

    @staticmethod
    def _identity(topic: str | dict[str, Any]) -> tuple[str | None, bytes]:
        return (topic, NO_ID) if isinstance(topic, str) else (topic["name"], topic["topicId"])
