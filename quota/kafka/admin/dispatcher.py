"""Carries a conversation on with Kafka: sends what it says, hears for it, and settles the futures."""

import logging
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message

from quota.client.conversation import (
    AppliedBy,
    Call,
    CallOptions,
    Conversation,
    Effects,
    NoAnswer,
    Throttled,
    TopicOutcome,
    Wait,
)
from quota.client.task import Task
from quota.errors import ClusterError
from quota.kafka.admin.errors import ThrottlingQuotaExceededError
from quota.kafka.admin.options import ClientOptions
from quota.kafka.requests import Answer, AnswerReader, RequestWriter
from quota.kafka.target import Stopped, Target
from quota.records.decision import DeadLetter, Decision
from quota.records.request import MutationRequest, TopicMutation
from quota.records.result import MutationResult, TopicResult

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_WORKERS = 16
_WORKER_NAME = "mutation-quota-target"
_MOST_SECONDS = 3600.0
"""Of a time limit, as librdkafka has it."""
_LEAST_SECONDS = 0.1
_JOIN_SECONDS = 5.0
_REQUEST_ID = re.compile(r'\{"request_id":"([^"]*)"')
"""How each request of ours begins: so a dead letter is known also where the rest of it is cut off."""

_NOBODY_HEARD = frozenset(
    {KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001
)
"""Why a request may not have been delivered although there is nothing wrong with it."""

Futures = dict[str, Future[None]]
Topics = Callable[[float], list[TopicMutation]]
"""What is asked of topics; it may take so many seconds to find out."""


class Dispatcher:
    """One conversation, safe for any number of threads; a thread of its own listens, some others wait for clusters."""

    def __init__(self, options: ClientOptions) -> None:
        """Connect.

        Raises:
            ClusterError: the cluster that decides does not answer, or lacks the topics. A client that fails open goes
                on without it, and looks for it again.
        """
        self._options = options
        self._limit = options.settings.client.api_timeout_ms / 1000
        applied_by = AppliedBy(options.settings.client.applied_by)
        self._with_results = applied_by is AppliedBy.APPLIER
        self._closed = threading.Event()
        self._writer = RequestWriter(
            options.settings, config={**options.control, "message.timeout.ms": int(self._limit * 1000)}
        )
        self._topic = options.settings.topics.requests_of(options.user)
        self._reader = self._first_reader()
        self.target = Target(options.target, self._closed)
        self._conversation = Conversation(
            Effects(self._send, self._carry_out_soon, self._settle, self._went_on),
            (options.user, options.client_id),
            f"{uuid.uuid4().hex}-",
            applied_by,
            options.open_after_seconds,
        )
        self.proceeded = 0
        """Requests that were gone on with although no decision came."""
        self._lock = threading.RLock()
        self._afterwards: list[Callable[[], None]] = []
        self._futures: dict[Call, Futures] = {}
        self._unfinished: set[Future[None]] = set()
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix=_WORKER_NAME)
        self._listener = threading.Thread(target=self._listen, name="mutation-quota-answers", daemon=True)
        self._listener.start()

    def ask(self, asking: CallOptions, names: Sequence[str], topics: Topics, seconds: float | None) -> Futures:
        """Begin a call.

        Args:
            asking: what is wanted.
            names: of the topics.
            topics: finds out what is wanted of each; may ask the cluster.
            seconds: the time limit; that of the settings if there is none.
        """
        limit = self._limit if seconds is None else seconds
        if not 0 < limit <= _MOST_SECONDS:
            raise ValueError(f"request_timeout is {seconds}: expected more than 0 and at most {_MOST_SECONDS} seconds")
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("the client is closed")
            futures = {name: self._future() for name in dict.fromkeys(names)}
            self._workers.submit(self._begin, asking, topics, time.monotonic() + limit, dict(futures))
        for name, times in Counter(names).items():
            if times > 1:
                _fail(futures[name], _error(KafkaError.INVALID_REQUEST, "Duplicate topic name."))
        return futures

    def close(self, *, wait_for_calls: bool) -> None:
        """End; calls that are not waited for fail. From within a callback of a future nothing is waited for."""
        own = threading.current_thread()
        inside = own is self._listener or own.name.startswith(_WORKER_NAME)
        if wait_for_calls and not inside:
            wait(list(self._unfinished))
        with self._lock:
            self._closed.set()
        self._do(partial(self._conversation.end, time.monotonic()))
        self._workers.shutdown(wait=False, cancel_futures=True)
        for future in list(self._unfinished):  # those whose topics were still being looked at
            _fail(future, _closed("the topic"))
        if not inside:
            self._listener.join(_JOIN_SECONDS)

    def _first_reader(self) -> AnswerReader | None:
        try:
            self._writer.check_topic(self._options.user)
            return self._new_reader()
        except ClusterError as error:
            if self._options.open_after_seconds is None:
                raise
            _log.warning("%s: going on without decisions (client.when_silent=open)", error)
            return None

    def _new_reader(self) -> AnswerReader:
        return AnswerReader(self._options.settings, results=self._with_results, config=self._options.control)

    def _future(self) -> Future[None]:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def _begin(self, asking: CallOptions, topics: Topics, deadline: float, futures: Futures) -> None:
        """Find out what to ask for, and ask."""
        try:
            asked = topics(max(deadline - time.monotonic(), _LEAST_SECONDS))
            call = Call(asking, [topic for topic in asked if not futures[topic.name].done()], deadline)
            if call.topics:
                self._do(partial(self._submit, call, futures))
        except Exception as error:  # noqa: BLE001 whatever it is, it belongs to those who wait
            for future in futures.values():
                _fail(future, error)

    def _submit(self, call: Call, futures: Futures) -> None:
        self._futures[call] = {topic.name: futures[topic.name] for topic in call.topics}
        self._conversation.submit(call, time.monotonic())

    def _do(self, action: Callable[[], None]) -> None:
        """Do something with the conversation; futures are settled after it, so that what waits for them may call us."""
        with self._lock:
            action()
            afterwards, self._afterwards = self._afterwards, []
        for each in afterwards:
            try:
                each()
            except BaseException:  # noqa: BLE001 a callback of the application's, on a thread of ours
                _log.exception("a callback of a future failed")

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                answers = self._answers()
                self._writer.poll()
                self._do(partial(self._hear, answers))
            except Exception:  # noqa: BLE001 the thread has to live on, or futures would hang
                _log.exception("cannot listen for decisions, trying again")
                self._closed.wait(_POLL_SECONDS)
        if self._reader is not None:
            self._reader.close()

    def _answers(self) -> list[Answer]:
        with self._lock:
            next_at = self._conversation.next_at
        seconds = _POLL_SECONDS if next_at is None else min(max(next_at - time.monotonic(), 0.0), _POLL_SECONDS)
        if self._reader is not None:
            return [heard.answer for heard in self._reader.read(seconds)]
        try:
            self._reader = self._new_reader()
        except ClusterError:
            self._closed.wait(seconds)
        return []

    def _hear(self, answers: Iterable[Answer]) -> None:
        now = time.monotonic()
        for answer in answers:
            match answer:
                case Decision():
                    self._conversation.decided(answer, now)
                case MutationResult():
                    self._conversation.applied(answer)
                case DeadLetter(error=error):
                    request_id = rejected_id(answer, self._topic)
                    if request_id is not None:
                        self._conversation.rejected(request_id, KafkaError.INVALID_REQUEST, "INVALID_REQUEST", error)
        self._conversation.due(now)

    def _send(self, request: MutationRequest, until: float) -> None:
        expires_at = int((time.time() + until - time.monotonic()) * 1000)
        request = msgspec.structs.replace(request, expires_at=expires_at)
        try:
            self._writer.send(request, delivered=partial(self._delivered, request.request_id))
        except (KafkaException, BufferError) as error:
            full = KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001
            told = error.args[0] if isinstance(error, KafkaException) else full
            self._afterwards.append(partial(self._delivered, request.request_id, told, None))

    def _delivered(self, request_id: str, error: KafkaError | None, _: Message | None) -> None:
        if error is not None and error.code() not in _NOBODY_HEARD:
            self._do(partial(self._conversation.rejected, request_id, error.code(), error.name(), error.str()))

    def _went_on(self, call: Call, topics: list[TopicMutation]) -> None:
        self.proceeded += 1
        names = ", ".join(topic.name for topic in topics)
        _log.warning("no decision on %s of %s: going on (client.when_silent=open)", call.asking.operation.value, names)

    def _carry_out_soon(self, call: Call, tasks: list[Task]) -> None:
        if not self._closed.is_set():
            self._workers.submit(self._carry_out, call, tasks)

    def _carry_out(self, call: Call, tasks: list[Task]) -> None:
        seconds = call.deadline - time.monotonic()
        if seconds <= 0:
            return  # it was told that its time was over
        try:
            results = self.target.carry_out(tasks, seconds)
        except Stopped:
            return
        self._do(partial(self._conversation.carried_out, call, results))

    def _settle(self, call: Call, topic: TopicMutation, outcome: TopicOutcome) -> None:
        """Have a future end."""
        future = self._futures[call].pop(topic.name)
        if not self._futures[call]:
            del self._futures[call]
        error = self._error(outcome)
        if error is None:
            self.target.note(call.asking.task(topic))  # an applier may have done it
            self._afterwards.append(partial(future.set_result, None))
        else:
            self._afterwards.append(partial(_fail, future, error))

    def _error(self, outcome: TopicOutcome) -> KafkaException | None:
        match outcome:
            case Throttled(name, throttle_time_ms):
                return ThrottlingQuotaExceededError(name, throttle_time_ms)
            case NoAnswer(name) if self._closed.is_set():
                return _closed(name)
            case NoAnswer(name, Wait.DECISION):
                servers = self._options.settings.kafka.bootstrap_servers
                reason = f"no decision on topic {name} in time; is mutation-quota enforce running on {servers}?"
                return _error(KafkaError._TIMED_OUT, f"{reason} It is not begun any more")  # noqa: SLF001
            case NoAnswer(name, Wait.RESULT):
                reason = f"topic {name} was admitted, but nobody told in time that it was carried out"
                return _error(KafkaError._TIMED_OUT, f"{reason}; it may still be")  # noqa: SLF001
            case TopicResult(error_code=code, error_message=message) if code:
                return _error(code, message or "")
            case _:
                return None


def rejected_id(letter: DeadLetter, topic: str) -> str | None:
    """The id of the request that a dead letter may be of, if it came by our topic: in another one anybody writes it."""
    found = _REQUEST_ID.match(letter.value or "")
    return found[1] if found and letter.source.topic == topic else None


def _error(code: int, message: str) -> KafkaException:
    return KafkaException(KafkaError(code, message))


def _closed(name: str) -> KafkaException:
    return _error(KafkaError._DESTROY, f"the client was closed before {name} was done")  # noqa: SLF001


def _fail(future: Future[None], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
