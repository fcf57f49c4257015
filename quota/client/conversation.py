"""What a client knows of its calls: what to send when, what was answered, and how long to keep still.

KIP-599's client half: only the topics that were refused are sent again, after the throttle time; the others complete
at once; at the time limit the refused ones fail with the time that remains. KIP-219: after a throttle nothing at all
is sent until it has passed. No clock and no I/O: the caller gives the time (seconds, of any clock that only goes
forwards), and gets told what to do.
"""

import enum
import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from quota.client.task import Task
from quota.records.decision import Decision, ErrorCode
from quota.records.request import STRICT_SINCE, MutationRequest, Operation, TopicMutation
from quota.records.result import MutationResult, TopicResult


class AppliedBy(enum.Enum):
    """Who carries admitted mutations out."""

    CLIENT = "client"
    APPLIER = "applier"
    NOBODY = "nobody"


class Wait(enum.Enum):
    """What a call waited for in vain."""

    DECISION = "decision"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Throttled:
    """A topic that was refused, and the time to wait that remains."""

    name: str
    throttle_time_ms: int


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A topic of which nothing more was heard."""

    name: str
    wait: Wait


TopicOutcome = TopicResult | Throttled | NoAnswer

_UNHEARD = 10_000
"""Requests whose decision is still told apart from a copy, and mutes, after their call has failed."""

_Action = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What an application wants of all topics of a call."""

    operation: Operation
    validate_only: bool = False
    retry_on_quota_violation: bool = True

    def task(self, topic: TopicMutation, *, maybe_done: bool = False) -> Task:
        """One topic, to be carried out."""
        return Task(self.operation, topic, self.validate_only, maybe_done=maybe_done)


@dataclass(eq=False, slots=True)
class Call:
    """A call of an application: topics that are to be changed, until `deadline`."""

    asking: CallOptions
    topics: list[TopicMutation]
    deadline: float
    unsettled: dict[str, TopicMutation] = field(init=False)
    refused: set[str] = field(init=False, default_factory=set)
    waits: dict[str, Wait] = field(init=False, default_factory=dict)
    tries: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.unsettled = {topic.name: topic for topic in self.topics}


@dataclass(frozen=True, slots=True)
class Effects:
    """What a conversation has done. None of it may wait, nor call the conversation back before it returns."""

    send: Callable[[MutationRequest, float], None]
    """Send a request that is to be carried out until then (seconds) or not at all."""
    carry_out: Callable[[Call, list[Task]], None]
    """Carry topics out, and tell by `Conversation.carried_out`."""
    settle: Callable[[Call, TopicMutation, TopicOutcome], None]
    """Tell the application what became of a topic; each is told once."""
    went_on: Callable[[Call, list[TopicMutation]], None]
    """Take note that nobody decided, and that it goes on without."""


@dataclass(frozen=True, slots=True)
class _Try:
    """One request of a call, and which of its topics it asks for."""

    call: Call
    topics: list[TopicMutation]


class Conversation:
    """All calls of one user and client-id. Not safe for threads: the caller lets in one at a time."""

    def __init__(
        self,
        effects: Effects,
        who: tuple[str, str],
        prefix: str,
        applied_by: AppliedBy,
        open_after_seconds: float | None = None,
    ) -> None:
        """Begin with nothing asked.

        Args:
            effects: what is to be done.
            who: user and client-id.
            prefix: what the ids of this client's requests begin with, and those of no other.
            applied_by: who carries out what is admitted.
            open_after_seconds: how long to wait for a decision before going on without one; None to fail instead.
        """
        self._effects = effects
        self._user, self._client_id = who
        self._prefix = prefix
        self._applied_by = applied_by
        self._open_after = open_after_seconds
        self._numbers = itertools.count()
        self._muted_until = float("-inf")
        self._unheard: dict[str, None] = {}
        self._undecided: dict[str, _Try] = {}
        self._unapplied: dict[str, _Try] = {}
        self._timers: list[tuple[float, int, _Action]] = []
        self._calls: set[Call] = set()
        self._ended = False

    @property
    def next_at(self) -> float | None:
        """When `due` has something to do."""
        return self._timers[0][0] if self._timers else None

    def submit(self, call: Call, now: float) -> None:
        """Begin a call."""
        if self._ended or now >= call.deadline:
            for topic in call.topics:
                self._settle(call, NoAnswer(topic.name, Wait.DECISION))
            return
        self._calls.add(call)
        self._at(call.deadline, partial(self._time_is_over, call))
        self._try(call, call.topics, now)

    def due(self, now: float) -> None:
        """Do what it is time for."""
        while self._timers and self._timers[0][0] <= now:
            _, _, action = heapq.heappop(self._timers)
            action(now)

    def decided(self, decision: Decision, now: float) -> None:
        """Hear a decision; one that is heard before, or is somebody else's, is passed over."""
        if decision.request_id not in self._unheard or not self._is_ours(decision):
            return
        del self._unheard[decision.request_id]
        self._muted_until = max(self._muted_until, now + decision.throttle_time_ms / 1000)
        tried = self._undecided.pop(decision.request_id, None)
        if tried is None:
            return
        refused = {topic.name for topic in decision.topics if topic.error_code != ErrorCode.NONE}
        self._refused(tried.call, [topic for topic in tried.topics if topic.name in refused], now)
        admitted = [each for each in tried.topics if each.name in tried.call.unsettled and each.name not in refused]
        self._admitted(decision.request_id, tried.call, admitted)

    def applied(self, result: MutationResult) -> None:
        """Hear what an applier did; it may come before the decision."""
        if not self._is_ours(result):
            return
        tried = self._unapplied.pop(result.request_id, None) or self._undecided.get(result.request_id)
        if tried is not None:
            self.carried_out(tried.call, result.topics)

    def carried_out(self, call: Call, results: Iterable[TopicResult]) -> None:
        """Hear what became of topics."""
        for result in results:
            self._settle(call, result)

    def rejected(self, request_id: str, code: int, error: str, message: str) -> None:
        """Hear that a request will have no decision: it could not be sent, or it is a dead letter."""
        tried = self._undecided.pop(request_id, None)
        if tried is not None:
            self.carried_out(tried.call, [TopicResult(each.name, code, error, message) for each in tried.topics])

    def end(self, now: float) -> None:
        """Let the time of all calls be over."""
        self._ended = True
        for call in list(self._calls):
            self._time_is_over(call, now)
        self._timers.clear()

    def _is_ours(self, answer: Decision | MutationResult) -> bool:
        """Whether it answers this user and client; another one may have guessed the id of a request of ours."""
        return (answer.user, answer.client_id) == (self._user, self._client_id)

    def _try(self, call: Call, topics: list[TopicMutation], now: float) -> None:
        topics = [topic for topic in topics if topic.name in call.unsettled]
        if not topics or now >= call.deadline:  # the time limit's own timer tells of them
            return
        if now < self._muted_until:
            self._at(self._muted_until, partial(self._try, call, topics))
            return
        request_id = f"{self._prefix}{next(self._numbers)}"
        until = call.deadline
        if self._open_after is not None:
            until = now + min(self._open_after, (call.deadline - now) / 2)  # the rest is for carrying it out
            self._at(until, partial(self._go_on, request_id))
        self._undecided[request_id] = _Try(call, topics)
        self._unheard[request_id] = None
        if len(self._unheard) > _UNHEARD:
            del self._unheard[next(iter(self._unheard))]
        call.tries.add(request_id)
        call.waits |= {topic.name: Wait.DECISION for topic in topics}
        request = MutationRequest(
            request_id=request_id,
            operation=call.asking.operation,
            api_version=STRICT_SINCE[call.asking.operation],
            topics=topics,
            user=self._user,
            client_id=self._client_id,
            validate_only=call.asking.validate_only,
            apply=self._applied_by is AppliedBy.APPLIER,
        )
        self._effects.send(request, until)

    def _refused(self, call: Call, topics: list[TopicMutation], now: float) -> None:
        """Keep refused topics until nothing is muted, or tell of them."""
        for topic in topics:
            call.refused.add(topic.name)
            if not call.asking.retry_on_quota_violation:
                self._settle(call, self._throttled(topic.name, now))
        self._try(call, topics, now)

    def _admitted(self, request_id: str, call: Call, topics: list[TopicMutation]) -> None:
        for topic in topics:
            call.refused.discard(topic.name)
            call.waits[topic.name] = Wait.RESULT
        if not topics:
            return
        match self._applied_by:
            case AppliedBy.APPLIER:
                self._unapplied[request_id] = _Try(call, topics)
            case AppliedBy.CLIENT:
                self._effects.carry_out(call, [call.asking.task(topic) for topic in topics])
            case AppliedBy.NOBODY:
                self.carried_out(call, [TopicResult(topic.name) for topic in topics])

    def _go_on(self, request_id: str, now: float) -> None:
        """Fail open: no decision came."""
        tried = self._undecided.pop(request_id, None)
        if tried is None:
            return
        call = tried.call
        topics = [each for each in tried.topics if each.name in call.unsettled]
        if not topics or now >= call.deadline:
            return
        self._effects.went_on(call, topics)
        for topic in topics:
            call.refused.discard(topic.name)
            call.waits[topic.name] = Wait.RESULT
        if self._applied_by is AppliedBy.NOBODY:
            self.carried_out(call, [TopicResult(topic.name) for topic in topics])
        else:  # an applier may have begun it in the last moment
            maybe_done = self._applied_by is AppliedBy.APPLIER
            self._effects.carry_out(call, [call.asking.task(topic, maybe_done=maybe_done) for topic in topics])

    def _time_is_over(self, call: Call, now: float) -> None:
        for name in list(call.unsettled):
            if name in call.waits and name not in call.refused:
                self._settle(call, NoAnswer(name, call.waits[name]))
            else:  # refused, or never sent because of a throttle before it
                self._settle(call, self._throttled(name, now))
        self._forget(call)

    def _settle(self, call: Call, outcome: TopicOutcome) -> None:
        topic = call.unsettled.pop(outcome.name, None)
        if topic is not None:
            self._effects.settle(call, topic, outcome)
        if not call.unsettled:
            self._forget(call)

    def _forget(self, call: Call) -> None:
        self._calls.discard(call)
        for request_id in call.tries:
            self._undecided.pop(request_id, None)
            self._unapplied.pop(request_id, None)

    def _at(self, moment: float, action: _Action) -> None:
        heapq.heappush(self._timers, (moment, next(self._numbers), action))

    def _throttled(self, name: str, now: float) -> Throttled:
        left = round((self._muted_until - now) * 1000, 3)  # no millisecond more for what a float cannot hold
        return Throttled(name, max(0, math.ceil(left)))
