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

Receiver = Callable[[DecisionReply], None]


@dataclass(eq=False, slots=True)
class _Pending:
    """A pending request for a decision, and the functions that receive it."""

    request: MutationRequest
    content: bytes
    requested_at: float
    receivers: list[tuple[Receiver, asyncio.TimerHandle]]


class PendingDecisions:
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
        self._waiting: dict[str, _Pending] = {}
        self._silent = False
        self._undecided = _Undecided()

    def __len__(self) -> int:
        """Return the number of pending requests."""
        return len(self._waiting)

    def request(self, wanted: DecisionRequest, receive: Receiver) -> None:
        """Request a decision on mutations; `receive` is called later, with the reply or a timeout."""
        request_id = self._undecided.id_of(wanted.content) or _new_id(wanted)
        pending = self._waiting.get(request_id)
        is_new = pending is None
        if pending is None:
            request = msgspec.structs.replace(
                wanted.request, request_id=request_id, expires_at=now_ms() + wanted.timeout_ms
            )
            pending = self._waiting[request_id] = _Pending(request, wanted.content, time.monotonic(), [])
        timer = asyncio.get_running_loop().call_later(wanted.timeout_ms / 1000, self._expire, request_id, receive)
        pending.receivers.append((receive, timer))
        if is_new:
            try:
                self._send(pending.request)
            except BadInput as error:  # the user's name does not give a valid topic name
                asyncio.get_running_loop().call_soon(self.fail, request_id, str(error))

    def answer(self, received: ReceivedAnswer) -> None:
        """Process an answer of the job, which may be for any client."""
        match received.answer:
            case Decision(request_id=request_id) as decision:
                pending = self._waiting.get(request_id)
                if pending is not None and _answers(decision, pending.request):
                    if self._silent:
                        self._silent = False
                        _log.info("receiving decisions again")
                    self._stats.add_decision(time.monotonic() - pending.requested_at)
                    self._reply(request_id, decision, age_ms=received.at - decision.timestamp)
                elif self._undecided.is_late(request_id):
                    self._stats.late += 1
            case DeadLetter(error=error) as letter:
                request_id = rejected_id(letter, letter.source.topic) or ""
                pending = self._waiting.get(request_id)
                if pending is not None and rejected_id(letter, self._topics.requests_of(pending.request.user)):
                    self._reply(request_id, invalid=error)

    def fail(self, request_id: str, reason: str) -> None:
        """Report that a request is invalid, with the reason; an empty reason means that it could not be written."""
        if request_id in self._waiting:
            self._stats.undecided += not reason
            self._reply(request_id, invalid=reason)

    def forget(self, receive: Receiver) -> None:
        """Remove a receiver that no longer waits."""
        for request_id, pending in list(self._waiting.items()):
            for each in [each for each in pending.receivers if each[0] == receive]:
                each[1].cancel()
                pending.receivers.remove(each)
            if not pending.receivers:
                del self._waiting[request_id]
                self._undecided.add(pending.content, request_id)

    def _reply(self, request_id: str, decision: Decision | None = None, *, invalid: str = "", age_ms: int = 0) -> None:
        pending = self._waiting.pop(request_id)
        self._undecided.remove(pending.content)
        waited_ms = _since(pending.requested_at)
        for receive, timer in pending.receivers:
            timer.cancel()
            receive(DecisionReply(decision, waited_ms, invalid, age_ms))

    def _expire(self, request_id: str, receive: Receiver) -> None:
        pending = self._waiting[request_id]
        pending.receivers = [each for each in pending.receivers if each[0] != receive]
        if not pending.receivers:
            del self._waiting[request_id]
            self._undecided.add(pending.content, request_id)
        self._stats.undecided += 1
        if not self._silent:
            self._silent = True
            _log.warning("no decision in time; check that mutation-quota enforce is running")
        receive(DecisionReply(None, _since(pending.requested_at)))


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


def _new_id(wanted: DecisionRequest) -> str:
    return ID_PREFIX + (wanted.content.hex() if wanted.once else uuid.uuid4().hex)


def _answers(decision: Decision, request: MutationRequest) -> bool:
    """Return whether a decision is for this request: others may choose the same id for a request that costs less."""
    requested = (request.user, request.client_id, request.operation, request.mode, request.validate_only, request.apply)
    decided = (
        decision.user,
        decision.client_id,
        decision.operation,
        decision.mode,
        decision.validate_only,
        decision.apply,
    )
    topics = [(each.name, each.partitions) for each in request.topics]
    return requested == decided and topics == [(each.name, each.partitions) for each in decision.topics]


def _since(moment: float) -> int:
    return int((time.monotonic() - moment) * 1000)
