"""The calls of a client: their topics are requested until they are admitted, and carried out.

KIP-599: only rejected topics are requested again, after the throttle time; the others complete at once; at the time
limit, rejected topics fail with the remaining throttle time. KIP-219: after a throttle, nothing is requested until it
has passed.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException

from quota.errors import ErrorCode
from quota.explanation.shortfall import REASON, Shortfall, client_message
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.target import Stopped
from quota.kafka.tasks import Task
from quota.records.decision import Decision
from quota.records.decision_request import DecisionRequest
from quota.records.request import STRICT_SINCE, MutationRequest, Operation, TopicMutation
from quota.records.result import TopicResult
from quota.text import format_duration

_log = logging.getLogger(__name__)


class ThrottlingQuotaExceededError(KafkaException):
    """A topic was rejected because its client has exceeded its mutation quota (KIP-599).

    Attributes:
        throttle_time_ms: the remaining throttle time in milliseconds, after which the topic can be requested again.
        decision_id: the id of the decision that rejected it, which `mutation-quota explain` takes; None if the topic
            was never requested, because of an earlier throttle.
        retry_at: the end of the throttle time by that decision and the brokers' clock [epoch ms]; None without one.
        retryable: always true.
    """

    retryable = True

    def __init__(
        self, name: str, throttle_time_ms: int, decision: Decision | None = None, message: str | None = None
    ) -> None:
        """Create the error of a topic, with the remaining throttle time, its decision, and a message."""
        again = f"try topic {name} again in {format_duration(throttle_time_ms)}"
        message = message or f"The throttling quota has been exceeded: {again}."
        super().__init__(KafkaError(KafkaError.THROTTLING_QUOTA_EXCEEDED, message, retriable=True))
        self.throttle_time_ms = throttle_time_ms
        self.decision_id = decision.decision_id if decision else None
        self.retry_at = decision.retry_at if decision else None


class TopicFuture(Future[None]):
    """The future of a topic's change; its result is None.

    Attributes:
        decision_id: the id of the last decision on the topic, which `mutation-quota explain` takes, once the future is
            done; None if there was no decision.
        throttled_until: the time [epoch ms] until which that decision throttles the client: a topic that was admitted
            may have overdrawn the quota. By the brokers' clock; None if it does not, or if there was no decision.
    """

    decision_id: str | None = None
    throttled_until: int | None = None


Futures = dict[str, TopicFuture]


@dataclass(frozen=True, slots=True)
class UnknownCost:
    """A topic that cannot be requested, because its cost cannot be found; it does not affect the others of its call."""

    name: str
    error: KafkaException


FoundTopics = Sequence[TopicMutation | UnknownCost]


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The operation of a call and its options, the same for all of its topics."""

    operation: Operation
    validate_only: bool = False
    retry_on_quota_violation: bool = True


@dataclass(eq=False, slots=True)
class Call:
    """An application's call, and the progress of its topics, by name."""

    options: CallOptions
    pending: Futures
    """The futures of topics without an outcome."""
    deadline: float
    """The time limit, in seconds of the event loop's clock."""
    rejected: dict[str, Decision] = field(default_factory=dict)
    """The last decisions on topics that are rejected."""
    admitted: set[str] = field(default_factory=set)
    """Topics that were admitted, and wait for their results."""
    is_held_back: bool = False
    """Whether its first request waits for the end of an earlier throttle."""
    carrying: set[asyncio.Task[None]] = field(default_factory=set)
    completed: asyncio.Event = field(default_factory=asyncio.Event)

    def complete(self, name: str, error: BaseException | None) -> None:
        """Complete a topic's future, whose callbacks may call this client."""
        future = self.pending.pop(name)
        if not self.pending:
            self.completed.set()
        try:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        except BaseException:  # noqa: BLE001 a callback of the application's, on a thread of ours
            _log.exception("a callback of a future failed")

    def fail(self, names: Iterable[str], error: BaseException) -> None:
        """Fail those of the topics that have no outcome."""
        for name in [name for name in names if name in self.pending]:
            self.complete(name, error)


class Calls:
    """All calls of one user and client-id; used on one event loop."""

    def __init__(
        self,
        user: str,
        client_id: str,
        *,
        carry_out: Callable[[Sequence[Task], float], Awaitable[Sequence[TopicResult]]],
        servers: str,
        rejection_message: str = REASON,
    ) -> None:
        """Start without calls.

        `carry_out` carries tasks out until a time of the event loop [s], and returns their results. Errors name the
        `servers` of the cluster that decides, and those of rejected topics are as the setting `rejection_message` says.
        """
        self._user, self._client_id = user, client_id
        self._carry_out_tasks = carry_out
        self._servers = servers
        self._rejection_message = rejection_message
        self._muted_until = 0.0
        self._shortfall: Shortfall | None = None
        self._turn = asyncio.Lock()  # first come, first served after a throttle

    def on_decision(self, decision: Decision, _: float | None) -> None:
        """Mute the client, even if the call has failed meanwhile."""
        now = asyncio.get_running_loop().time()
        self._muted_until = max(self._muted_until, now + decision.throttle_time_ms / 1000)
        if decision.throttle_time_ms:
            self._shortfall = Shortfall.of(decision)

    async def run(self, call: Call, find: Awaitable[FoundTopics], decisions: AwaitedDecisions) -> None:
        """Run a call until each topic has an outcome; `find` returns their mutations."""
        now = asyncio.get_running_loop().time
        try:
            costs = await find
            topics = [topic for topic in costs if isinstance(topic, TopicMutation)]
            for unknown in (topic for topic in costs if isinstance(topic, UnknownCost)):
                call.fail([unknown.name], unknown.error)
            if now() >= call.deadline:
                for name in list(call.pending):
                    call.complete(name, self._no_decision(name))
            async with asyncio.timeout_at(call.deadline):
                await self._request(call, await self._valid(call, topics), decisions)
                await call.completed.wait()
        except TimeoutError:
            self._expire(call, cause=decisions.why_undecided())
        except asyncio.CancelledError:
            self._expire(call, is_closed=True)
        except Exception as error:  # noqa: BLE001 any error belongs to those who wait for the call
            call.fail(call.pending, error)
        finally:
            for task in call.carrying:
                task.cancel()

    async def _valid(self, call: Call, topics: list[TopicMutation]) -> list[TopicMutation]:
        """Return the topics that the cluster would create; the others fail, and are not charged, as by the gateway.

        A deletion cannot be validated, and a growth costs the controller as much as to carry it out.
        """
        operation, topics = call.options.operation, [topic for topic in topics if topic.name in call.pending]
        if call.options.validate_only or operation is not Operation.CREATE_TOPICS or not topics:
            return topics
        tasks = [Task(operation, topic, validate_only=True) for topic in topics]
        results = await self._carry_out_tasks(tasks, call.deadline)
        _complete(call, [result for result in results if result.error_code])
        return [topic for topic in topics if topic.name in call.pending]

    async def _request(self, call: Call, topics: Iterable[TopicMutation], decisions: AwaitedDecisions) -> None:
        """Request topics until none of them is rejected; those that are not pending are left out."""
        now = asyncio.get_running_loop().time
        call.is_held_back = True
        while topics := [topic for topic in topics if topic.name in call.pending]:
            async with self._turn:
                while now() < self._muted_until:  # noqa: ASYNC110 another decision may extend the throttle meanwhile
                    await asyncio.sleep(self._muted_until - now())
                call.is_held_back = False
                timeout_ms = math.ceil((call.deadline - now()) * 1000)
                replied = decisions.request(DecisionRequest(self._mutation_request(call.options, topics), timeout_ms))
            reply = await replied
            if reply.decision is not None:
                topics = self._decide(call, topics, reply.decision)
            elif reply.error_code:
                call.fail([topic.name for topic in topics], kafka_error(reply.error_code, reply.error))
            else:
                raise TimeoutError

    def _mutation_request(self, options: CallOptions, topics: list[TopicMutation]) -> MutationRequest:
        return MutationRequest(
            request_id="",
            operation=options.operation,
            api_version=STRICT_SINCE[options.operation],
            topics=topics,
            user=self._user,
            client_id=self._client_id,
            validate_only=options.validate_only,
            apply=False,
        )

    def _decide(self, call: Call, topics: list[TopicMutation], decision: Decision) -> list[TopicMutation]:
        """Have admitted topics carried out, and return the rejected ones."""
        names = {topic.name for topic in decision.topics if topic.error_code}
        rejected = [topic for topic in topics if topic.name in names]
        admitted = [topic for topic in topics if topic.name not in names]
        for future in (call.pending[topic.name] for topic in topics if topic.name in call.pending):
            future.decision_id = decision.decision_id
            future.throttled_until = decision.retry_at if decision.throttle_time_ms else None
        for topic in admitted:
            call.rejected.pop(topic.name, None)
            call.admitted.add(topic.name)
        if admitted:
            call.carrying.add(asyncio.create_task(self._carry_out(call, admitted)))
        for exceeding in (topic for topic in decision.topics if topic.error_code == ErrorCode.POLICY_VIOLATION):
            message = client_message(self._rejection_message, exceeding.error_message)
            call.fail([exceeding.name], kafka_error(exceeding.error_code, message or ""))
        for topic in rejected:
            call.rejected[topic.name] = decision
            if not call.options.retry_on_quota_violation and topic.name in call.pending:
                call.complete(topic.name, self._throttled(call, topic.name, decision.throttle_time_ms))
        return rejected

    async def _carry_out(self, call: Call, topics: list[TopicMutation]) -> None:
        tasks = [Task(call.options.operation, topic, call.options.validate_only) for topic in topics]
        try:
            results = await self._carry_out_tasks(tasks, call.deadline)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 any error belongs to those who wait for the call
            call.fail([topic.name for topic in topics], error)
        else:
            _complete(call, results)

    def _expire(self, call: Call, *, is_closed: bool = False, cause: str = "") -> None:
        """Fail all topics without an outcome, each for its own reason."""
        for name in list(call.pending):
            if name in call.rejected or call.is_held_back:
                error: KafkaException = self._throttled(call, name)
            elif is_closed:
                error = kafka_error(KafkaError._DESTROY, f"the client was closed before {name} was changed")  # noqa: SLF001
            elif name in call.admitted:
                error = _timed_out(
                    f"topic {name} was admitted, but no result arrived in time; it may still be carried out"
                )
            else:
                error = self._no_decision(name, cause)
            call.complete(name, error)

    def _no_decision(self, name: str, cause: str = "") -> KafkaException:
        question = f"{cause}." if cause else f"is mutation-quota enforce running on {self._servers}?"
        return _timed_out(f"no decision on topic {name} in time; {question} The change will not be made later")

    def _throttled(self, call: Call, name: str, at_least_ms: int = 0) -> ThrottlingQuotaExceededError:
        seconds = self._muted_until - asyncio.get_running_loop().time()
        remaining_ms = math.ceil(round(seconds * 1000, 3))  # a float's error must not add a millisecond
        left_ms, decision = max(at_least_ms, remaining_ms), call.rejected.get(name)
        shortfall = self._shortfall if decision is None else Shortfall.of(decision)
        message = client_message(self._rejection_message, shortfall.sentence(left_ms)) if shortfall else None
        return ThrottlingQuotaExceededError(name, left_ms, decision, message)


def kafka_error(code: int, message: str) -> KafkaException:
    """Return an exception with one of Kafka's error codes."""
    return KafkaException(KafkaError(code, message))


def _complete(call: Call, results: Iterable[TopicResult]) -> None:
    for result in results:
        if result.name in call.pending:
            error = kafka_error(result.error_code, result.error_message or "") if result.error_code else None
            call.complete(result.name, error)


def _timed_out(reason: str) -> KafkaException:
    return kafka_error(KafkaError._TIMED_OUT, reason)  # noqa: SLF001
