"""DeleteTopics, by names or by ids: it costs the partitions that the topics have."""

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

from quota.gateway.mutations.existing import describe
from quota.gateway.mutations.operations import (
    Answer,
    Call,
    Check,
    Checked,
    ClientRequest,
    MutationOperation,
    Pause,
    content_digest,
)
from quota.gateway.mutations.recent import NO_ID, ExistingTopic, RecentTopics
from quota.records.request import TopicMutation

_Identity = tuple[str | None, bytes]
"""A topic's name, or its id; the other one is None or `NO_ID`."""


class Deletion(MutationOperation):
    """DeleteTopics: a topic costs the partitions that it has.

    The cluster cannot validate a deletion. What it would refuse, because the topic is not there, may not be deleted or
    is named twice, goes on uncharged, and gets the cluster's own answer. It does so before a decision is awaited, since
    there could be such a topic by then.
    """

    results = "responses"

    def __init__(self, request: ClientRequest, default_partitions: int, recent: RecentTopics, now: int) -> None:
        """Take a request."""
        super().__init__(request, default_partitions, recent, now)
        self._field = "topicNames" if "topicNames" in request.message else "topics"
        self._found: list[ExistingTopic] = []
        """The topics that are charged."""

    def check(self) -> Check:
        """Ask for the topics, their partitions, and whether the client may delete them."""
        wanted = self._request.message[self._field]
        found = yield from self._find([_identity(each) for each in wanted])
        times = Counter(each.name for each in found if each is not None)
        costs, uncharged = [], []
        for each, topic in zip(wanted, found, strict=True):
            if topic is None or times[topic.name] > 1:
                uncharged.append(each)
            else:
                self._topics.append(each)
                self._found.append(topic)
                costs.append(TopicMutation(topic.name, topic.partitions))
        failed, throttle_ms = [], 0
        if uncharged:
            answer = yield Call(self._request.key, self._request.version, self._with(0, **{self._field: uncharged}))
            failed, throttle_ms = answer[self.results], answer["throttleTimeMs"]
        ids = [each.topic_id for each in self._found]
        content = content_digest(self._request, ids if NO_ID not in ids else [each.name for each in self._found])
        return Checked(costs, failed, throttle_ms, NO_ID not in ids, content)

    def forward(self, admitted: frozenset[int], waited_ms: int) -> dict[str, Any] | None:
        """Return the request with the admitted topics."""
        topics = [topic for index, topic in enumerate(self._topics) if index in admitted]
        return self._with(waited_ms, **{self._field: topics}) if topics else None

    def refuse(self, index: int, error: int, message: str | None) -> Answer:
        """Return the answer for a topic, by name and id whichever it was asked for by, as a broker does."""
        topic = self._found[index]
        return {"name": topic.name, "topicId": topic.topic_id, "errorCode": int(error), "errorMessage": message}

    def remember(self, results: list[Answer]) -> None:
        """Forget the topics deleted."""
        deleted = {each["name"] for each in results if not each["errorCode"]}
        deleted |= {
            each["topicId"] for each in results if not each["errorCode"] and each.get("topicId", NO_ID) != NO_ID
        }
        for each in self._found:
            if each.name in deleted or each.topic_id in deleted:
                self._recent.forget(each.name)

    def _find(self, wanted: Sequence[_Identity]) -> Generator[Call | Pause, dict[str, Any], list[ExistingTopic | None]]:
        """Return the topic for each name or id; None if the client may not delete it, or asks for it twice."""
        times = Counter(wanted)
        once = [each for each in wanted if times[each] == 1]
        names = [name for name, topic_id in once if name is not None and topic_id == NO_ID]
        ids = [topic_id for name, topic_id in once if name is None and topic_id != NO_ID]
        by_name = yield from describe(self._recent, self._now, names=names)
        by_id = yield from describe(self._recent, self._now, ids=ids)
        known: dict[_Identity, ExistingTopic] = {(each.name, NO_ID): each for each in by_name if each.may_delete}
        known |= {(None, each.topic_id): each for each in by_id if each.may_delete}
        return [known.get(each) for each in wanted]


def _identity(topic: str | dict[str, Any]) -> _Identity:
    return (topic, NO_ID) if isinstance(topic, str) else (topic["name"], topic["topicId"])
