"""The driver's own record of requests and answers, and of the topics before and after each request.

A request of the record has the client, the operation and, for each topic, the requested number of partitions ("asked"),
the error that the client saw, the number of partitions in the answer ("partitions"), and the numbers that brokers
reported to another client before and after the request. Times are epoch ms. If a client retries by itself ("retries"),
the request log has more requests than the record.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.evidence.request_logs.calls import Answer, Call, Client, Operation, Topic, TopicAnswer
from tests.evidence.request_logs.observer import Described, Observer
from tests.support.waiting import until

_SECONDS = 30
_UNSURE_SECONDS = 5
_TIMED_OUT = 7


@dataclass(slots=True)
class Drive:
    """Sends requests and keeps the record, which leaves out the observer's own requests."""

    observer: Observer
    requests: list[dict[str, Any]] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    """Topic names by the topic ids seen so far."""

    def ask(self, client: Client, call: Call, **more: object) -> Answer:
        """Send a request, and record it.

        Args:
            client: The client that sends it.
            call: The request.
            more: Further fields of the request in the record.
        """
        before = self.describe(self._names(call.topics))
        answer = client.ask(call)
        self.keep(client, call, before, answer, **more)
        return answer

    def keep(self, client: Client, call: Call, before: Described, answer: Answer, **more: object) -> None:
        """Record a request that was answered; `before` are its topics before it was sent."""
        after = self._after(call, answer)
        self.requests.append(
            {
                "operation": call.operation,
                "client": client.kind,
                "principal": client.principal,
                "client_id": client.client_id,
                "api_version": answer.api_version,
                "sent_ms": answer.sent_ms,
                "answered_ms": answer.answered_ms,
                "validate_only": call.validate_only,
                "retries": call.retries,
                "throttle_ms": answer.throttle_ms,
                "topics": [
                    self._topic(asked, answered, before, after)
                    for asked, answered in zip(call.topics, _in_order(call, answer), strict=True)
                ],
                **more,
            }
        )

    def appeared(self, how: str, names: Iterable[str], act: Callable[[], None], **more: object) -> None:
        """Call `act`, and record the topics that the cluster creates because of it, as operation `how`."""
        wanted = list(names)
        sent = _now()
        act()
        after = until(lambda: _all_of(self.describe(wanted), wanted), _SECONDS)
        topics = [{"name": name, "id": after[name][1], "before": None, "after": after[name][0]} for name in wanted]
        self.requests.append({"operation": how, "sent_ms": sent, "answered_ms": _now(), "topics": topics, **more})

    def describe(self, names: Iterable[str]) -> Described:
        """Return the partitions and ids of those of these topics that exist."""
        found = self.observer.describe(names)
        self.ids |= {id_: name for name, (_, id_) in found.items()}
        return found

    def id_of(self, name: str) -> str:
        """Return a topic's id."""
        return self.describe([name])[name][1]

    def _names(self, topics: Sequence[Topic]) -> list[str]:
        return [name for each in topics if (name := self._name(each)) is not None]

    def _name(self, topic: Topic) -> str | None:
        return topic.name if topic.id is None else self.ids.get(topic.id)

    def _after(self, call: Call, answer: Answer) -> Described:
        """Return the topics of a request, once the brokers' metadata shows its outcome."""
        names = self._names(call.topics)
        changed = [
            asked
            for asked, answered in zip(call.topics, _in_order(call, answer), strict=True)
            if answered.error in {0, _TIMED_OUT} and not call.validate_only
        ]

        def settled() -> bool:
            found = self.describe(names)
            return all(self._has_changed(call, each, found) for each in changed)

        if any(each.error == _TIMED_OUT for each in answer.topics):
            with suppress(AssertionError):  # after a timeout, the change may not have been made
                until(settled, _UNSURE_SECONDS)
        else:
            until(settled, _SECONDS)
        return self.describe(names)

    def _has_changed(self, call: Call, topic: Topic, found: Described) -> bool:
        name = self._name(topic)
        assert name is not None
        if call.operation is Operation.DELETE:
            return name not in found
        if call.operation is Operation.CREATE:
            return name in found
        return name in found and found[name][0] == topic.asked

    def _topic(self, asked: Topic, answered: TopicAnswer, before: Described, after: Described) -> dict[str, Any]:
        name = self._name(asked)
        was, found = (each.get(name or "", (None, None)) for each in (before, after))
        return {
            "name": name,
            "id": asked.id or was[1] or found[1],
            "asked": asked.asked,
            "assignments": asked.assignments,
            "error": answered.error,
            "message": answered.message,
            "throttle_ms": answered.throttle_ms,
            "partitions": answered.partitions,
            "before": was[0],
            "after": found[0],
        }


def _in_order(call: Call, answer: Answer) -> list[TopicAnswer]:
    """Return the topics of an answer in the order of the request, which Kafka does not always keep."""
    left = list(answer.topics)
    found = []
    for each in call.topics:
        match = next((one for one in left if (one.id == each.id if each.name is None else one.name == each.name)), None)
        if match is None:  # the request has the topic twice, the answer once
            match = next(one for one in found if one.name == each.name)
        else:
            left.remove(match)
        found.append(match)
    return found


def _all_of(found: Described, names: list[str]) -> Described | None:
    return found if len(found) == len(names) else None


def _now() -> int:
    return round(time.time() * 1000)
