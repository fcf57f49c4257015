"""The dispatcher: carries on a conversation over Kafka, and completes the futures of its calls."""

import logging
import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message

from quota.client.call import Call, CallOptions, NoAnswer, TopicOutcome
from quota.client.conversation import AppliedBy, Conversation, Effects
from quota.client.task import Task
from quota.kafka.admin.options import ClientOptions
from quota.kafka.admin.outcomes import TopicFuture, closed_error, kafka_error, outcome_error
from quota.kafka.requests import UNDELIVERED, Answer, AnswerReader, RequestWriter, rejected_id
from quota.kafka.target.target import Stopped, Target
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Decision
from quota.records.request import MutationRequest, TopicMutation
from quota.records.result import MutationResult

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_WORKERS = 16
_WORKER_NAME = "mutation-quota-target"
_MAX_SECONDS = 3600.0
"""librdkafka's maximum for a time limit."""
_MIN_SECONDS = 0.1
_JOIN_SECONDS = 5.0
Futures = dict[str, TopicFuture]
FindMutations = Callable[[float], list[TopicMutation]]
"""Returns the mutations of a call; takes the time limit of its calls to the cluster, in seconds."""


class Dispatcher:
    """A thread-safe conversation: one thread reads answers, and a pool of threads waits for the clusters."""

    def __init__(self, options: ClientOptions) -> None:
        """Connect.

        Raises:
            ClusterError: the cluster that decides does not answer, or lacks the topics.
        """
        self._options = options
        self._time_limit = options.settings.client.api_timeout_seconds
        applied_by = AppliedBy(options.settings.client.applied_by)
        self._closed = threading.Event()
        self._writer = RequestWriter(
            options.settings, overrides={**options.control, "message.timeout.ms": math.ceil(self._time_limit * 1000)}
        )
        self._topic = options.settings.topics.requests_of(options.user)
        self._prefix = f"{uuid.uuid4().hex}-"
        self._writer.check_topic(options.user)
        self._reader = AnswerReader(
            options.settings,
            results=applied_by is AppliedBy.APPLIER,
            only=self._prefix,
            overrides=options.control,
        )
        self.target = Target(options.target, self._closed)
        self._conversation = Conversation(
            Effects(self._send, self._submit_tasks, self._on_outcome),
            (options.user, options.client_id),
            self._prefix,
            applied_by,
        )
        self._lock = threading.RLock()
        self._completions: list[Callable[[], None]] = []
        self._futures: dict[Call, Futures] = {}
        self._unfinished: set[TopicFuture] = set()
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix=_WORKER_NAME)
        self._listener = threading.Thread(target=self._listen, name="mutation-quota-answers", daemon=True)
        self._listener.start()

    def call(self, options: CallOptions, names: Sequence[str], find: FindMutations, seconds: float | None) -> Futures:
        """Start a call, and return a future for each topic.

        Args:
            options: the operation and its options.
            names: the names of the topics.
            find: returns the mutation of each topic; runs on a separate thread.
            seconds: the time limit; None for that of the settings.
        """
        limit = self._time_limit if seconds is None else seconds
        if not 0 < limit <= _MAX_SECONDS:
            raise ValueError(f"request_timeout is {seconds}: expected more than 0 and at most {_MAX_SECONDS} seconds")
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("the client is closed")
            futures = {name: self._future() for name in dict.fromkeys(names)}
            self._workers.submit(self._start_call, options, find, time.monotonic() + limit, dict(futures))
        for name, count in Counter(names).items():
            if count > 1:
                _fail(futures[name], kafka_error(KafkaError.INVALID_REQUEST, "Duplicate topic name."))
        return futures

    def close(self, *, wait_for_calls: bool) -> None:
        """Close the connections.

        Pending calls fail, unless `wait_for_calls` is set and this is not called from a future's callback.
        """
        current = threading.current_thread()
        is_ours = current is self._listener or current.name.startswith(_WORKER_NAME)
        if wait_for_calls and not is_ours:
            wait(list(self._unfinished))
        with self._lock:
            self._closed.set()
        self._run(partial(self._conversation.close, time.monotonic()))
        self._workers.shutdown(wait=False, cancel_futures=True)
        for future in list(self._unfinished):  # their calls had not reached the conversation
            _fail(future, closed_error("the topic"))
        if not is_ours:
            self._listener.join(_JOIN_SECONDS)

    def _future(self) -> TopicFuture:
        future = TopicFuture()
        future.set_running_or_notify_cancel()
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future

    def _start_call(self, options: CallOptions, find: FindMutations, deadline: float, futures: Futures) -> None:
        try:
            mutations = find(max(deadline - time.monotonic(), _MIN_SECONDS))
            call = Call(options, [topic for topic in mutations if not futures[topic.name].done()], deadline)
            if call.topics:
                self._run(partial(self._submit, call, futures))
        except Exception as error:  # noqa: BLE001 any error belongs to those who wait for the call
            for future in futures.values():
                _fail(future, error)

    def _submit(self, call: Call, futures: Futures) -> None:
        self._futures[call] = {topic.name: futures[topic.name] for topic in call.topics}
        self._conversation.submit(call, time.monotonic())

    def _run(self, action: Callable[[], None]) -> None:
        """Run an action on the conversation, and then complete futures, whose callbacks may call this client."""
        with self._lock:
            action()
            completions, self._completions = self._completions, []
        for complete in completions:
            try:
                complete()
            except BaseException:  # noqa: BLE001 a callback of the application's, on a thread of ours
                _log.exception("a callback of a future failed")

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                answers = self._answers()
                self._writer.poll()
                self._run(partial(self._on_answers, answers))
            except Exception:  # noqa: BLE001 without this thread futures would never complete
                _log.exception("cannot read decisions, retrying")
                self._closed.wait(_POLL_SECONDS)
        self._reader.close()

    def _answers(self) -> list[Answer]:
        with self._lock:
            next_at = self._conversation.next_at
        seconds = _POLL_SECONDS if next_at is None else min(max(next_at - time.monotonic(), 0.0), _POLL_SECONDS)
        return [received.answer for received in self._reader.read(seconds)]

    def _on_answers(self, answers: Iterable[Answer]) -> None:
        now = time.monotonic()
        for answer in answers:
            try:
                self._on_answer(answer, now)
            except Exception:  # noqa: BLE001 the other answers of the batch have their own calls
                _log.exception("cannot process an answer")
        self._conversation.run_due(now)

    def _on_answer(self, answer: Answer, now: float) -> None:
        match answer:
            case Decision():
                self._conversation.on_decision(answer, now)
            case MutationResult():
                self._conversation.on_result(answer)
            case DeadLetter(error=error):
                request_id = rejected_id(answer, self._topic)
                if request_id is not None:
                    self._conversation.on_rejection(request_id, KafkaError.INVALID_REQUEST, "INVALID_REQUEST", error)

    def _send(self, request: MutationRequest, until: float) -> None:
        expires_at = int((time.time() + until - time.monotonic()) * 1000)
        request = msgspec.structs.replace(request, expires_at=expires_at)
        try:
            self._writer.send(request, on_delivery=partial(self._on_delivery, request.request_id))
        except (KafkaException, BufferError) as error:
            queue_full = KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001
            cause = error.args[0] if isinstance(error, KafkaException) else queue_full
            self._completions.append(partial(self._on_delivery, request.request_id, cause, None))

    def _on_delivery(self, request_id: str, error: KafkaError | None, _: Message | None) -> None:
        if error is not None and error.code() not in UNDELIVERED:
            self._run(partial(self._conversation.on_rejection, request_id, error.code(), error.name(), error.str()))

    def _submit_tasks(self, call: Call, tasks: list[Task]) -> None:
        if not self._closed.is_set():
            self._workers.submit(self._carry_out, call, tasks)

    def _carry_out(self, call: Call, tasks: list[Task]) -> None:
        seconds = call.deadline - time.monotonic()
        if seconds <= 0:
            return  # the call has failed already
        try:
            results = self.target.carry_out(tasks, seconds)
        except Stopped:
            return
        self._run(partial(self._conversation.on_topic_results, call, results))

    def _on_outcome(self, call: Call, topic: TopicMutation, outcome: TopicOutcome) -> None:
        """Queue the completion of a topic's future."""
        future = self._futures[call].pop(topic.name)
        future.decision_id = call.decision_ids.get(topic.name)
        if not self._futures[call]:
            del self._futures[call]
        if isinstance(outcome, NoAnswer) and self._closed.is_set():
            error: KafkaException | None = closed_error(outcome.name)
        else:
            error = outcome_error(outcome, self._options.settings.kafka.bootstrap_servers)
        if error is None:
            self.target.record(call.options.task(topic))  # an applier may have carried it out
            self._completions.append(partial(future.set_result, None))
        else:
            self._completions.append(partial(_fail, future, error))


def _fail(future: TopicFuture, error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
