"""Decisions that a gateway or a client waits for: each is requested, and its answer passed to those who wait."""

import asyncio
import logging
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

from confluent_kafka import KafkaError, KafkaException, Message
from msgspec.structs import replace as replace_fields

from quota.admission.identity import request_topic
from quota.admission.resolve import FEWER_TOPICS
from quota.errors import BadInput, ClusterError, ErrorCode
from quota.kafka.librdkafka import UNDELIVERED, reason
from quota.kafka.requests_and_answers import AnswerReader, ReceivedAnswer, RequestWriter, rejected_id
from quota.kafka.timing import Every, now_ms
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.decision_request import DecisionReply, DecisionRequest
from quota.records.request import MutationRequest, Operation
from quota.settings.sections import TopicSettings
from quota.text import plural

_log = logging.getLogger(__name__)

_MAX_UNDECIDED = 10_000
_POLL_SECONDS = 0.05
_RETRY_SECONDS = 0.5
_LOOK_SECONDS = 2.0
"""After how long without a decision, and how often then, a transaction is looked for that hides requests [s]."""
_JOIN_SECONDS = 5.0
_FLUSH_SECONDS = 2.0
_LEAST_SECONDS = 0.1
"""The least time for a decision: it is written, read by the job, written by it and read again."""
_MAX_TIMES = 10
_DECIDING_SECONDS = 10.0
"""How long a program without a limit may wait for a decision until the job counts as silent [s]."""
_MAX_LOGGED = 100
"""The number of errors that are logged once each; their texts may have times in them."""


class JobPace:
    """The silence of the enforcing job, and the times that its last decisions took. Times are seconds of one clock.

    A job is silent if nothing was decided for `silent_after`, although a request waits for it.
    """

    def __init__(self, silent_after: float) -> None:
        self._silent_after = silent_after
        self._sent_at = 0.0
        self._waiting_since: float | None = None
        self._times: deque[float] = deque(maxlen=_MAX_TIMES)

    def sent(self, now: float) -> None:
        """Record that a request was sent."""
        self._sent_at = now
        if self._waiting_since is None:
            self._waiting_since = now

    def decided(self, seconds: float) -> None:
        """Record that a request was decided, and the time that it took. One that outlasted a silence tells nothing."""
        self._waiting_since = None
        if seconds < self._silent_after:
            self._times.append(seconds)

    def rejected(self) -> None:
        """Record that no request is left that a decision could be missing for."""
        self._waiting_since = None

    def silent_for(self, now: float) -> float:
        """Return the time for which a request has waited and no other was decided."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def is_deciding(self, now: float) -> bool:
        """Return whether requests were decided, and no other has waited for long since."""
        return bool(self._times) and self.silent_for(now) < _DECIDING_SECONDS

    def trial_is_due(self, now: float) -> bool:
        """Return whether nothing was sent for so long that what is known may have changed."""
        return now - self._sent_at >= self._silent_after

    def least_seconds(self, now: float) -> float:
        """Return the least time that a decision takes, as far as is known.

        It takes as long as the quickest of the last ones, and no less than another has already waited for one: the job
        decides requests in their order.
        """
        quickest = min(self._times, default=0.0)
        return max(min(_LEAST_SECONDS, self._silent_after), quickest, self.silent_for(now))

    def can_decide_within(self, seconds: float, now: float) -> bool:
        """Return whether a request may be decided within a time."""
        return self.silent_for(now) < seconds >= self.least_seconds(now)


@dataclass(eq=False, slots=True)
class _Pending:
    """A request, and the replies that wait for its answer."""

    request: MutationRequest
    content_digest: bytes
    requested_at: float
    """The time of the event loop [s]."""
    replies: set[asyncio.Future[DecisionReply]] = field(default_factory=set)
    has_failed: bool = False
    """Whether it could not be written, so that it does not show whether the job decides."""


class AwaitedDecisions:
    """Requests decisions, and passes each answer to those who wait for it, and to nobody else.

    It is used on one event loop; a thread reads the answers. All request ids have a common prefix. The id of a mutation
    that can happen only once is derived from its content, so a program that replaces a killed one sends the same id; if
    the job remembers admitted requests (`repeats.window_seconds`), it is not charged again. Other mutations with a
    content reuse the id of their last attempt if that is undecided, and creations that of another program with this
    prefix.

    A request that nobody waits for any longer is withdrawn, so that it costs nothing: a decision on it that comes later
    answers nobody, and the next attempt is charged.

    A program with a limit for decisions does not write a request that would not be decided in its own time, because it
    would be charged later, for nothing. If nothing has been decided for the limit, the job is silent: then no request
    is written, except a copy that is only validated, each time that the limit has passed. It costs nothing, so an
    outage is charged to nobody else, however long it takes.
    """

    def __init__(  # noqa: PLR0913
        self,
        writer: RequestWriter,
        reader: AnswerReader,
        topics: TopicSettings,
        prefix: str,
        on_decision: Callable[[Decision, float | None], None],
        *,
        limit_ms: int | None = None,
        on_any: Callable[[Decision, int], None] = lambda *_: None,
    ) -> None:
        """Prepare for requests, whose ids get the prefix; answers are read after `start`.

        `on_decision` is called once for each decision, with the time that it took [s], or None if nobody waits for it
        any longer. `limit_ms` is the longest time that a decision may take; without it, each request is written.
        `on_any` is called for each decision on a request with the prefix, of whichever program, with its age [ms].
        """
        self._writer = writer
        self._reader = reader
        self._topics = topics
        self._prefix = prefix
        self._on_decision = on_decision
        self._on_any = on_any
        self._pending: dict[str, _Pending] = {}
        self._undecided = _Undecided()
        self._creations = _Creations()
        self._may_withdraw = topics.user_topic_prefix is None
        self._has_limit = limit_ms is not None
        self._pace = JobPace(float("inf") if limit_ms is None else limit_ms / 1000)
        self._logged: set[str] = set()
        self.cause = ""
        """Why nothing is decided, if it is known: a transaction hides requests from the job."""
        self._look = Every(_LOOK_SECONDS)
        self._looking = threading.Thread()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of requests that somebody waits for."""
        return len(self._pending)

    def start(self) -> None:
        """Start reading answers for the running event loop."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._listen, args=(loop,), name="mutation-quota-decisions", daemon=True)
        self._thread.start()

    def request(self, wanted: DecisionRequest) -> asyncio.Future[DecisionReply]:
        """Request a decision; who cancels the reply no longer waits for it."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[DecisionReply] = loop.create_future()
        request_id = self._id_of(wanted)
        pending = self._pending.get(request_id)
        if pending is None and self._is_in_vain(wanted, loop):
            reply.set_result(self._no_decision(was_requested=False))
            return reply
        is_new = pending is None
        if pending is None:
            expires_at = now_ms() + wanted.timeout_ms
            request = replace_fields(wanted.request, request_id=request_id, expires_at=expires_at)
            pending = self._pending[request_id] = _Pending(request, wanted.content_digest, loop.time())
        pending.replies.add(reply)
        timer = loop.call_later(wanted.timeout_ms / 1000, self._on_timeout, reply, wanted.timeout_ms)
        reply.add_done_callback(partial(self._on_done, request_id, timer))
        if is_new:
            self._send(pending.request, loop)
        return reply

    def why_undecided(self) -> str:
        """Return why a decision is missing, as far as is known: the cause, or how long decisions take."""
        now = asyncio.get_running_loop().time()
        if self.cause or not self._pace.is_deciding(now):
            return self.cause
        return f"decisions take at least {self._no_decision(was_requested=True).least_decision_ms} ms at present"

    def recall(self, requests: Iterable[MutationRequest]) -> None:
        """Take over the creations in the requests of a program with this prefix, in the order of their times."""
        for request in requests:
            self._creations.see(request)

    def receive(self, received: ReceivedAnswer) -> None:
        """Process an answer of the job, which may be for any program."""
        match received.answer:
            case Decision() as decision:
                self._on_any(decision, received.at - decision.timestamp)
                self._receive_decision(decision, received.at - decision.timestamp)
            case DeadLetter(error=error) as letter:
                request_id = rejected_id(letter, letter.source.topic) or ""
                asked = self._pending.get(request_id) or self._undecided.awaited.get(request_id)
                if asked is not None and rejected_id(letter, request_topic(asked.request.user, self._topics)):
                    self._pace.rejected()
                    if request_id in self._pending:
                        self._reply(request_id, DecisionReply(error_code=ErrorCode.INVALID_REQUEST, error=error))
                    else:
                        self._undecided.remove(asked)

    def close(self) -> None:
        """End the thread and its connection, once what was withdrawn is written."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            with suppress(ClusterError):
                self._writer.flush(_FLUSH_SECONDS)

    def _id_of(self, wanted: DecisionRequest) -> str:
        if known := self._undecided.ids.get(wanted.content_digest):
            return known
        if wanted.happens_once:
            return f"{self._prefix}{wanted.content_digest.hex()}"
        return self._creations.take(wanted.request) or f"{self._prefix}{uuid.uuid4().hex}"

    def _receive_decision(self, decision: Decision, decision_age_ms: int) -> None:
        pending = self._pending.get(decision.request_id)
        if decision.operation is Operation.DELETE_TOPICS:
            self._creations.see(decision)
        if pending is not None and self._is_on(decision, pending.request):
            self._on_decision(decision, self._took(pending))
            self._reply(decision.request_id, DecisionReply(decision, decision_age_ms=decision_age_ms))
        elif decision.withdraws is None and (late := self._undecided.pop_decided(decision)) is not None:
            self._took(late)
            self._on_decision(decision, None)
        else:
            self._creations.see(decision)

    def _is_on(self, decision: Decision, request: MutationRequest) -> bool:
        """Return whether a decision is on this request: others may choose the same id for a request that costs less.

        A decision on an attempt that was withdrawn has another time limit.
        """
        requested = [(topic.name, topic.partitions) for topic in request.topics]
        decided = [(topic.name, topic.partitions) for topic in decision.topics]
        is_attempt = not self._may_withdraw or decision.expires_at == request.expires_at
        return is_attempt and _identity(request) == _identity(decision) and requested == decided

    def _took(self, decided: _Pending) -> float:
        """Record the time that a decision took, and return it [s]."""
        now = asyncio.get_running_loop().time()
        self._pace.decided(now - decided.requested_at)
        return now - decided.requested_at

    def _reply(self, request_id: str, reply: DecisionReply) -> None:
        """Pass a reply to those who wait for a request, with the time that it took."""
        pending = self._pending.pop(request_id)
        if reply.error_code and not self._pending:
            self._pace.rejected()
        self._undecided.remove(pending)
        waited_ms = int((asyncio.get_running_loop().time() - pending.requested_at) * 1000)
        for future in pending.replies:
            _answer(future, replace(reply, waited_ms=waited_ms))

    def _on_timeout(self, reply: asyncio.Future[DecisionReply], waited_ms: int) -> None:
        _answer(reply, replace(self._no_decision(was_requested=True), waited_ms=waited_ms))

    def _no_decision(self, *, was_requested: bool) -> DecisionReply:
        now = asyncio.get_running_loop().time()
        silent_ms, least_ms = (
            round(time * 1000) for time in (self._pace.silent_for(now), self._pace.least_seconds(now))
        )
        return DecisionReply(
            job_silent_ms=silent_ms, least_decision_ms=least_ms, was_requested=was_requested, cause=self.cause
        )

    def _is_in_vain(self, wanted: DecisionRequest, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether a request would not be decided in time.

        If it is not known any longer, its copy is requested, which is only validated: it costs nothing.
        """
        now = loop.time()
        if not self._has_limit or self._pace.can_decide_within(wanted.timeout_ms / 1000, now):
            return False
        if self._pace.trial_is_due(now):
            if self._pace.silent_for(now) and not self._undecided.any_written:
                return False
            trial_id = f"{self._prefix}{uuid.uuid4().hex}"
            trial = replace_fields(wanted.request, request_id=trial_id, validate_only=True, unrecorded=0)
            self._undecided.add(_Pending(trial, b"", now))
            self._send(trial, loop)
        return True

    def _on_done(self, request_id: str, timer: asyncio.TimerHandle, reply: asyncio.Future[DecisionReply]) -> None:
        """Forget a reply that was cancelled or came too late; its request is undecided if nobody else waits."""
        timer.cancel()
        pending = self._pending.get(request_id)
        if pending is not None and reply in pending.replies:
            pending.replies.discard(reply)
            if not pending.replies:
                del self._pending[request_id]
                self._give_up(pending)

    def _give_up(self, pending: _Pending) -> None:
        """Withdraw a request, which may be decided later, or may have been written although that failed."""
        self._undecided.add(pending)
        if self._may_withdraw:
            try:
                self._writer.send(pending.request.withdrawal, on_delivery=self._on_withdrawn)
            except (BufferError, KafkaException) as error:
                self._on_withdrawn(error)

    def _on_withdrawn(self, error: KafkaError | KafkaException | BufferError | None, _: Message | None = None) -> None:
        if error is not None:
            why = error if isinstance(error, BufferError) else reason(error)
            self._warn(f"a withdrawal cannot be written, so its request may be charged: {why}")

    def _send(self, request: MutationRequest, loop: asyncio.AbstractEventLoop) -> None:
        self._pace.sent(loop.time())
        try:
            self._writer.send(request, on_delivery=partial(self._on_delivery, loop, request.request_id))
        except BadInput as error:  # the user's name does not give a valid topic name
            self._reply(request.request_id, DecisionReply(error_code=ErrorCode.INVALID_REQUEST, error=str(error)))
        except BufferError:
            self._fail(request.request_id, KafkaError(KafkaError._QUEUE_FULL))  # noqa: SLF001
        except KafkaException as error:
            self._fail(request.request_id, error.args[0])

    def _on_delivery(
        self, loop: asyncio.AbstractEventLoop, request_id: str, error: KafkaError | None, _: Message
    ) -> None:
        if error is not None:
            loop.call_soon_threadsafe(self._fail, request_id, error)

    def _fail(self, request_id: str, error: KafkaError) -> None:
        """Reject a request that cannot be written; unless it is invalid, it may have been written after all."""
        message = f"the request cannot be written to its topic: {error.str()}"
        self._warn(message)
        pending = self._pending.get(request_id)
        if pending is None:
            if undecided := self._undecided.awaited.get(request_id):
                undecided.has_failed = True
        elif error.code() in UNDELIVERED:  # it may still be answered
            return
        elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            topics = plural(len(pending.request.topics), "topic")
            message = f"the request of {topics} is larger than its topic accepts ({error.str()}); {FEWER_TOPICS}"
            self._reply(request_id, DecisionReply(error_code=ErrorCode.INVALID_REQUEST, error=message))
        else:
            self._reply(request_id, DecisionReply(error_code=error.code(), error=message))
            pending.has_failed = True
            self._give_up(pending)

    def _warn(self, message: str) -> None:
        if message not in self._logged:
            if len(self._logged) >= _MAX_LOGGED:
                self._logged.clear()
            self._logged.add(message)
            _log.warning("%s", message)

    def _look_for_cause(self, now: float) -> None:
        """Look why nothing is decided, on another thread: a cluster that does not answer must not delay answers."""
        if self._pace.silent_for(now) < _LOOK_SECONDS:
            self.cause = ""
        elif self._look.is_due() and not self._looking.is_alive():
            self._looking = threading.Thread(target=self._find_cause, name="mutation-quota-cause", daemon=True)
            self._looking.start()

    def _find_cause(self) -> None:
        self.cause = self._writer.open_transaction()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._closed.is_set():
            try:
                self._writer.poll()
                self._look_for_cause(loop.time())
                for received in self._reader.read(_POLL_SECONDS):
                    loop.call_soon_threadsafe(self.receive, received)
            except Exception:  # noqa: BLE001 without this thread nobody would be answered
                _log.exception("cannot read decisions, retrying")
                self._closed.wait(_RETRY_SECONDS)
        self._reader.close()


class _Undecided:
    """The newest requests that are not decided, and that nobody waits for."""

    def __init__(self) -> None:
        self.ids: OrderedDict[bytes, str] = OrderedDict()
        """Their ids, by content if there is one."""
        self.awaited: dict[str, _Pending] = {}
        """Those whose decision has not arrived at all, by id; the last added is the last."""

    def add(self, undecided: _Pending) -> None:
        request_id = undecided.request.request_id
        self.awaited.pop(self.ids.get(_key(undecided), ""), None)  # one with the same content, requested meanwhile
        self.ids[_key(undecided)] = request_id
        self.awaited[request_id] = undecided
        if len(self.ids) > _MAX_UNDECIDED:
            self.awaited.pop(self.ids.popitem(last=False)[1], None)

    def remove(self, decided: _Pending) -> None:
        self.awaited.pop(self.ids.pop(_key(decided), ""), None)

    @property
    def any_written(self) -> bool:
        """Whether one of them is not decided although it was written, as far as is known."""
        return not all(pending.has_failed for pending in self.awaited.values())

    def pop_decided(self, decision: Decision) -> _Pending | None:
        """Return the request of the first decision on one of them."""
        pending = self.awaited.get(decision.request_id)
        if pending is None or (pending.request.user, pending.request.client_id) != (decision.user, decision.client_id):
            return None
        return self.awaited.pop(decision.request_id)


class _Creations:
    """The creations that others with the same prefix have requested, by their first topics, the newest last.

    A program that was killed may not have carried them out, and its clients try again, perhaps elsewhere. A creation
    that is asked for again may not have happened, since the cluster has validated it: with the same id it is free.
    """

    def __init__(self) -> None:
        self._ids: OrderedDict[str, tuple[object, str]] = OrderedDict()

    def see(self, seen: MutationRequest | Decision) -> None:
        """Record a request of others, or a decision on it; what was created before a deletion is charged again."""
        first = seen.topics[0].name if seen.topics else ""
        if seen.operation is Operation.DELETE_TOPICS:
            for topic in seen.topics:
                self._ids.pop(topic.name, None)
        elif seen.operation is Operation.CREATE_TOPICS and not seen.validate_only:
            self._ids.pop(first, None)
            self._ids[first] = _created(seen), seen.request_id
            if len(self._ids) > _MAX_UNDECIDED:
                self._ids.popitem(last=False)

    def take(self, wanted: MutationRequest) -> str | None:
        """Return the id of the same creation, which is then this program's own."""
        content, request_id = self._ids.get(wanted.topics[0].name, (None, None))
        if wanted.operation is not Operation.CREATE_TOPICS or content != _created(wanted):
            return None
        del self._ids[wanted.topics[0].name]
        return request_id


def _created(seen: MutationRequest | Decision) -> object:
    return seen.user, seen.client_id, [(topic.name, topic.partitions) for topic in seen.topics]


def _key(undecided: _Pending) -> bytes:
    return undecided.content_digest or undecided.request.request_id.encode()


def _answer(future: asyncio.Future[DecisionReply], reply: DecisionReply) -> None:
    if not future.done():
        future.set_result(reply)


_identity = attrgetter("user", "client_id", "operation", "mode", "validate_only", "apply")
