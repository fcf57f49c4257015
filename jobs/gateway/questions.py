"""The requests for decisions that are pending."""

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from quota.errors import BadInput
from quota.gateway.mutations.mutate import DecisionReply, DecisionRequest
from quota.gateway.stats import GatewayStats
from quota.kafka.requests import ReceivedAnswer, rejected_id
from quota.kafka.timing import now_ms
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.request import MutationRequest
from quota.settings.sections import TopicSettings

_log = logging.getLogger(__name__)

_MAX_UNDECIDED = 10_000

ID_PREFIX = "gateway-"
"""The prefix of the request ids of all gateways."""

Tell = Callable[[DecisionReply], None]


@dataclass(eq=False, slots=True)
class _Question:
    """A pending request for a decision, and the functions that receive it."""

    request: MutationRequest
    content: bytes
    asked_at: float
    tell: list[tuple[Tell, asyncio.TimerHandle]]


class Questions:
    """Requests decisions, and passes each decision to its receivers. Used on one event loop.

    The request ids of all gateways have the same prefix. The id of a mutation that can happen only once is derived from
    its content, so a gateway that replaces a killed one sends the same id; if the job remembers admitted requests
    (`repeats.window_seconds`), it is not charged again. Other mutations reuse the id of their last attempt if that is
    undecided.
    """

    def __init__(self, send: Callable[[MutationRequest], None], topics: TopicSettings, stats: GatewayStats) -> None:
        self._send = send
        self._topics = topics
        self._stats = stats
        self._waiting: dict[str, _Question] = {}
        self._silent = False
        self._undecided = _Undecided()

    def __len__(self) -> int:
        """Return the number of pending requests."""
        return len(self._waiting)

    def ask(self, ask: DecisionRequest, tell: Tell) -> None:
        """Request a decision on mutations; `receive` is called later, with the verdict or a timeout."""
        request_id = self._undecided.id_of(ask.content) or _new_id(ask)
        question = self._waiting.get(request_id)
        is_new = question is None
        if question is None:
            request = msgspec.structs.replace(ask.request, request_id=request_id, expires_at=now_ms() + ask.timeout_ms)
            question = self._waiting[request_id] = _Question(request, ask.content, time.monotonic(), [])
        timer = asyncio.get_running_loop().call_later(ask.timeout_ms / 1000, self._expire, request_id, tell)
        question.tell.append((tell, timer))
        if is_new:
            try:
                self._send(question.request)
            except BadInput as error:  # the user's name does not give a valid topic name
                asyncio.get_running_loop().call_soon(self.fail, request_id, str(error))

    def answer(self, received: ReceivedAnswer) -> None:
        """Process an answer of the job, which may be for any client."""
        match received.answer:
            case Decision(request_id=request_id) as decision:
                question = self._waiting.get(request_id)
                if question is not None and _answers(decision, question.request):
                    if self._silent:
                        self._silent = False
                        _log.info("receiving decisions again")
                    self._stats.add_decision(time.monotonic() - question.asked_at)
                    self._tell(request_id, decision, age_ms=received.at - decision.timestamp)
                elif self._undecided.is_late(request_id):
                    self._stats.late += 1
            case DeadLetter(error=error) as letter:
                request_id = rejected_id(letter, letter.source.topic) or ""
                question = self._waiting.get(request_id)
                if question is not None and rejected_id(letter, self._topics.requests_of(question.request.user)):
                    self._tell(request_id, invalid=error)

    def fail(self, request_id: str, reason: str) -> None:
        """Report that a request is invalid, with the reason; an empty reason means that it could not be written."""
        if request_id in self._waiting:
            self._stats.undecided += not reason
            self._tell(request_id, invalid=reason)

    def forget(self, tell: Tell) -> None:
        """Remove a receiver that no longer waits."""
        for request_id, question in list(self._waiting.items()):
            for each in [each for each in question.tell if each[0] == tell]:
                each[1].cancel()
                question.tell.remove(each)
            if not question.tell:
                del self._waiting[request_id]
                self._undecided.add(question.content, request_id)

    def _tell(self, request_id: str, decision: Decision | None = None, *, invalid: str = "", age_ms: int = 0) -> None:
        question = self._waiting.pop(request_id)
        self._undecided.remove(question.content)
        waited_ms = _since(question.asked_at)
        for tell, timer in question.tell:
            timer.cancel()
            tell(DecisionReply(decision, waited_ms, invalid, age_ms))

    def _expire(self, request_id: str, tell: Tell) -> None:
        question = self._waiting[request_id]
        question.tell = [each for each in question.tell if each[0] != tell]
        if not question.tell:
            del self._waiting[request_id]
            self._undecided.add(question.content, request_id)
        self._stats.undecided += 1
        if not self._silent:
            self._silent = True
            _log.warning("no decision in time; check that mutation-quota enforce is running")
        tell(DecisionReply(None, _since(question.asked_at)))


class _Undecided:
    """The newest requests that were not decided in time."""

    def __init__(self) -> None:
        self._ids: OrderedDict[bytes, str] = OrderedDict()
        self._awaited: set[str] = set()

    def add(self, content: bytes, request_id: str) -> None:
        self._ids[content] = request_id
        self._awaited.add(request_id)
        if len(self._ids) > _MAX_UNDECIDED:
            self._awaited.discard(self._ids.popitem(last=False)[1])

    def remove(self, content: bytes) -> None:
        self._awaited.discard(self._ids.pop(content, ""))

    def id_of(self, content: bytes) -> str | None:
        return self._ids.get(content)

    def is_late(self, request_id: str) -> bool:
        """Return whether this is the first decision on one of them."""
        if request_id not in self._awaited:
            return False
        self._awaited.discard(request_id)
        return True


def _new_id(ask: DecisionRequest) -> str:
    return ID_PREFIX + (ask.content.hex() if ask.once else uuid.uuid4().hex)


def _answers(decision: Decision, request: MutationRequest) -> bool:
    """Return whether a decision is for this request: others may choose the same id for a request that costs less."""
    asked = (request.user, request.client_id, request.operation, request.mode, request.validate_only, request.apply)
    decided = (
        decision.user,
        decision.client_id,
        decision.operation,
        decision.mode,
        decision.validate_only,
        decision.apply,
    )
    topics = [(each.name, each.partitions) for each in request.topics]
    return asked == decided and topics == [(each.name, each.partitions) for each in decision.topics]


def _since(moment: float) -> int:
    return int((time.monotonic() - moment) * 1000)
