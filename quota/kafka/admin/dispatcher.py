"""The dispatcher: runs the calls of an application's threads on an event loop of its own."""

import asyncio
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from confluent_kafka import KafkaError

from quota.kafka.admin.calls import Call, CallOptions, Calls, FoundTopics, Futures, TopicFuture, kafka_error
from quota.kafka.admin.client_options import ClientOptions
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter
from quota.kafka.target import Stopped, Target
from quota.kafka.tasks import Task
from quota.records.result import TopicResult

_WORKERS = 16
_MAX_SECONDS = 3600.0
"""librdkafka's maximum for a time limit."""
_MIN_SECONDS = 0.1
_JOIN_SECONDS = 5.0
FindMutations = Callable[[float], FoundTopics]
"""Returns the mutations of a call; takes the time limit of its calls to the cluster, in seconds."""


class Dispatcher:
    """The threads of a client: one has the event loop, one reads answers, and a pool waits for the target cluster."""

    def __init__(self, options: ClientOptions) -> None:
        settings = options.settings
        self._time_limit = options.time_limit_seconds
        self._closed = threading.Event()
        self.target = Target(options.target, self._closed)
        self._calls = Calls(
            options.user,
            options.client_id,
            carry_out=self._carry_out,
            servers=settings.kafka.bootstrap_servers,
            rejection_message=settings.quota.rejection_message,
        )
        writer = RequestWriter(settings, overrides=options.control, limit_seconds=self._time_limit)
        writer.check_topic(options.user)
        prefix = f"{uuid.uuid4().hex}-"
        reader = AnswerReader(settings, request_id_prefix=prefix, overrides=options.control)
        self._decisions = AwaitedDecisions(writer, reader, settings.topics, prefix, self._calls.on_decision)
        self._lock = threading.Lock()
        self._unfinished: set[TopicFuture] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="mutation-quota-target")
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="mutation-quota-calls", daemon=True)
        self._thread.start()

    def call(self, options: CallOptions, names: Sequence[str], find: FindMutations, seconds: float | None) -> Futures:
        """Start a call, and return a future for each topic; `find` runs on a separate thread."""
        limit = self._time_limit if seconds is None else seconds
        if not 0 < limit <= _MAX_SECONDS:
            raise ValueError(f"request_timeout is {seconds}: expected more than 0 and at most {_MAX_SECONDS} seconds")
        futures = {name: TopicFuture() for name in names}
        for name, count in Counter(names).items():
            if count > 1:
                futures[name].set_exception(kafka_error(KafkaError.INVALID_REQUEST, "Duplicate topic name."))
        pending = {name: future for name, future in futures.items() if not future.done()}
        call = Call(options, pending, time.monotonic() + limit)
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("the client is closed")
            for future in pending.values():
                future.set_running_or_notify_cancel()  # it cannot be cancelled
                self._unfinished.add(future)
                future.add_done_callback(self._unfinished.discard)
            if pending:
                self._loop.call_soon_threadsafe(self._start, call, find)
        return futures

    def close(self, *, wait_for_calls: bool) -> None:
        """Close the connections.

        Pending calls fail, unless `wait_for_calls` is set and this is not called from a future's callback.
        """
        is_ours = threading.current_thread() is self._thread
        if wait_for_calls and not is_ours:
            wait(list(self._unfinished))
        with self._lock:
            if not self._closed.is_set():
                self._closed.set()
                self._loop.call_soon_threadsafe(self._ended.set)
        if not is_ours:
            self._thread.join(_JOIN_SECONDS)

    def abandon(self) -> None:
        """Close the connections once no call is pending, because the application has dropped its client."""
        pending = next((future for future in self._unfinished.copy() if not future.done()), None)
        if pending is None:
            self.close(wait_for_calls=False)
        else:
            pending.add_done_callback(lambda _: self.abandon())

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())
        del self._calls, self._decisions  # in a cycle, librdkafka's clients would live until it is collected

    async def _serve(self) -> None:
        self._decisions.start()
        await self._ended.wait()
        await asyncio.sleep(0)  # a call that has just been started must run before it can be cancelled
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._decisions.close()

    def _start(self, call: Call, find: FindMutations) -> None:
        seconds = max(call.deadline - time.monotonic(), _MIN_SECONDS)
        topics = self._loop.run_in_executor(self._workers, find, seconds)
        task = self._loop.create_task(self._calls.run(call, topics, self._decisions))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, tasks: Sequence[Task], until: float) -> Sequence[TopicResult]:
        def carry_out() -> Sequence[TopicResult]:
            seconds = until - time.monotonic()
            if seconds <= 0:
                raise Stopped  # the call has failed already
            return self.target.carry_out(tasks, seconds)

        return await self._loop.run_in_executor(self._workers, carry_out)
