"""The client's part of KIP-599 and KIP-219: what to send and when, and the effect of each answer on the calls.

KIP-599: only refused topics are sent again, after the throttle time; the others complete at once; at the time limit,
refused topics fail with the remaining throttle time. KIP-219: after a throttle, nothing is sent until it has passed.
There is no clock and no I/O here: the caller passes the time (seconds of any monotonic clock) and provides the effects.
"""

import enum
import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from quota.client.call import Call, NoAnswer, Refusal, Throttled, TopicOutcome, Wait
from quota.client.task import Task
from quota.errors import ErrorCode
from quota.records.decision import Decision
from quota.records.request import STRICT_SINCE, MutationRequest, TopicMutation
from quota.records.result import MutationResult, TopicResult

_MAX_UNDECIDED_IDS = 10_000
"""Maximum number of undecided requests to remember: each decision mutes the client once, even if its call has failed by
then."""

_Action = Callable[[float], None]


class AppliedBy(enum.Enum):
    """Who carries admitted mutations out."""

    CLIENT = "client"
    APPLIER = "applier"


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a conversation. They must not block, nor call the conversation before they return."""

    send: Callable[[MutationRequest, float], None]
    """Send a request that expires at the given time (seconds)."""
    carry_out: Callable[[Call, list[Task]], None]
    """Carry tasks out, and report their results to `Conversation.on_topic_results`."""
    on_outcome: Callable[[Call, TopicMutation, TopicOutcome], None]
    """Report the outcome of a topic to the application, once for each topic."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One request of a call, with its topics that are still pending."""

    call: Call
    topics: list[TopicMutation]


class Conversation:
    """All calls of one user and client-id, without clock and I/O.

    The caller passes the time as `now`, in seconds of any monotonic clock. Not thread-safe.
    """

    def __init__(self, effects: Effects, who: tuple[str, str], prefix: str, applied_by: AppliedBy) -> None:
        """Create a conversation without calls.

        Args:
            effects: functions that send requests, carry out tasks and report outcomes.
            who: the user and the client-id.
            prefix: the prefix of this client's request ids, which no other client uses.
            applied_by: who carries admitted mutations out.
        """
        self._effects = effects
        self._user, self._client_id = who
        self._prefix = prefix
        self._applied_by = applied_by
        self._numbers = itertools.count()
        self._muted_until = float("-inf")
        self._undecided_ids: dict[str, None] = {}  # outlive their attempts, oldest first
        self._undecided: dict[str, _Attempt] = {}
        self._unapplied: dict[str, _Attempt] = {}
        self._timers: list[tuple[float, int, _Action]] = []
        self._calls: set[Call] = set()
        self._closed = False

    @property
    def next_at(self) -> float | None:
        """The time to call `run_due` next, or None."""
        return self._timers[0][0] if self._timers else None

    def submit(self, call: Call, now: float) -> None:
        """Start a call."""
        if self._closed or now >= call.deadline:
            for topic in call.topics:
                self._complete(call, NoAnswer(topic.name, Wait.DECISION))
            return
        self._calls.add(call)
        self._at(call.deadline, partial(self._expire, call))
        self._send(call, call.topics, now)

    def run_due(self, now: float) -> None:
        """Run all timers that are due."""
        while self._timers and self._timers[0][0] <= now:
            _, _, action = heapq.heappop(self._timers)
            action(now)

    def on_decision(self, decision: Decision, now: float) -> None:
        """Process a decision. Copies of one, and decisions for other clients, are ignored."""
        if decision.request_id not in self._undecided_ids or not self._is_ours(decision):
            return
        del self._undecided_ids[decision.request_id]
        self._muted_until = max(self._muted_until, now + decision.throttle_time_ms / 1000)
        attempt = self._undecided.pop(decision.request_id, None)
        if attempt is None:
            return
        call = attempt.call
        call.decision_ids |= {topic.name: decision.decision_id for topic in attempt.topics}
        refused = {topic.name for topic in decision.topics if topic.error_code != ErrorCode.NONE}
        refusal = Refusal(decision.decision_id, decision.retry_at)
        self._on_refused(call, [topic for topic in attempt.topics if topic.name in refused], refusal, now)
        admitted = [topic for topic in attempt.topics if topic.name in call.pending and topic.name not in refused]
        self._on_admitted(decision.request_id, call, admitted)

    def on_result(self, result: MutationResult) -> None:
        """Process an applier's result, which may arrive before the decision."""
        if not self._is_ours(result):
            return
        attempt = self._unapplied.pop(result.request_id, None) or self._undecided.get(result.request_id)
        if attempt is not None:
            attempt.call.decision_ids |= {topic.name: result.decision_id for topic in result.topics}
            self.on_topic_results(attempt.call, result.topics)

    def on_topic_results(self, call: Call, results: Iterable[TopicResult]) -> None:
        """Complete topics that were carried out."""
        for result in results:
            self._complete(call, result)

    def on_rejection(self, request_id: str, code: int, error: str, message: str) -> None:
        """Fail the topics of a request that gets no decision: it could not be sent or is a dead letter."""
        attempt = self._undecided.pop(request_id, None)
        if attempt is not None:
            failures = [TopicResult(topic.name, code, error, message) for topic in attempt.topics]
            self.on_topic_results(attempt.call, failures)

    def close(self, now: float) -> None:
        """Expire all calls, and any that are submitted later."""
        self._closed = True
        for call in list(self._calls):
            self._expire(call, now)
        self._timers.clear()

    def _is_ours(self, answer: Decision | MutationResult) -> bool:
        """Return whether an answer is for this user and client-id: another client may have guessed a request id."""
        return (answer.user, answer.client_id) == (self._user, self._client_id)

    def _send(self, call: Call, topics: list[TopicMutation], now: float) -> None:
        """Send those of the topics that are pending, once the mute is over."""
        topics = [topic for topic in topics if topic.name in call.pending]
        if not topics or now >= call.deadline:  # the deadline's own timer fails them
            return
        if now < self._muted_until:
            self._at(self._muted_until, partial(self._send, call, topics))
            return
        request_id = f"{self._prefix}{next(self._numbers)}"
        self._undecided[request_id] = _Attempt(call, topics)
        self._undecided_ids[request_id] = None
        if len(self._undecided_ids) > _MAX_UNDECIDED_IDS:
            del self._undecided_ids[next(iter(self._undecided_ids))]
        call.request_ids.add(request_id)
        call.waits |= {topic.name: Wait.DECISION for topic in topics}
        request = MutationRequest(
            request_id=request_id,
            operation=call.options.operation,
            api_version=STRICT_SINCE[call.options.operation],
            topics=topics,
            user=self._user,
            client_id=self._client_id,
            validate_only=call.options.validate_only,
            apply=self._applied_by is AppliedBy.APPLIER,
        )
        self._effects.send(request, call.deadline)

    def _on_refused(self, call: Call, topics: list[TopicMutation], refusal: Refusal, now: float) -> None:
        """Send refused topics again after the mute, or fail them."""
        for topic in topics:
            call.refused[topic.name] = refusal
            if not call.options.retry_on_quota_violation:
                self._complete(call, self._throttled(call, topic.name, now))
        self._send(call, topics, now)

    def _on_admitted(self, request_id: str, call: Call, topics: list[TopicMutation]) -> None:
        call.await_results(topics)
        if not topics:
            return
        match self._applied_by:
            case AppliedBy.APPLIER:
                self._unapplied[request_id] = _Attempt(call, topics)
            case AppliedBy.CLIENT:
                self._effects.carry_out(call, [call.options.task(topic) for topic in topics])

    def _expire(self, call: Call, now: float) -> None:
        for name in list(call.pending):
            if name in call.waits and name not in call.refused:
                self._complete(call, NoAnswer(name, call.waits[name]))
            else:  # refused, or never sent because of an earlier throttle
                self._complete(call, self._throttled(call, name, now))
        self._forget(call)

    def _complete(self, call: Call, outcome: TopicOutcome) -> None:
        topic = call.pending.pop(outcome.name, None)
        if topic is not None:
            self._effects.on_outcome(call, topic, outcome)
        if not call.pending:
            self._forget(call)

    def _forget(self, call: Call) -> None:
        self._calls.discard(call)
        for request_id in call.request_ids:
            self._undecided.pop(request_id, None)
            self._unapplied.pop(request_id, None)

    def _at(self, time: float, action: _Action) -> None:
        heapq.heappush(self._timers, (time, next(self._numbers), action))

    def _throttled(self, call: Call, name: str, now: float) -> Throttled:
        remaining = round((self._muted_until - now) * 1000, 3)  # a float's error must not add a millisecond
        return Throttled(name, max(0, math.ceil(remaining)), call.refused.get(name))
