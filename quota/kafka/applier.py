"""The applier: carries out admitted mutations, each once, in spite of crashes and decisions that were written twice."""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from quota.admission.identity import user_of
from quota.admission.policy import MAX_REQUEST_RECORD_BYTES
from quota.errors import BadRecord, ClusterError
from quota.explanation.shortfall import Shortfall, client_message
from quota.kafka.applier_ledger import AppliedOffset, Ledger
from quota.kafka.librdkafka import client_config, cluster_errors
from quota.kafka.producers import write_each
from quota.kafka.reading import (
    Partition,
    Skipped,
    make_consumer,
    message_source,
    offset_range,
    poll_batch,
    topic_partitions,
)
from quota.kafka.target import Stopped, Target
from quota.kafka.tasks import Task, failure, with_later_growth
from quota.kafka.timing import Deadline, Every, LoopStats, now_ms
from quota.records import codec
from quota.records.decision import Decision, TopicDecision, read_decision
from quota.records.reason import Reason
from quota.records.record import Source
from quota.records.request import Mode, Operation
from quota.records.result import MutationResult, TopicResult
from quota.settings import Settings

_log = logging.getLogger(__name__)

_BATCH = 100
_MAX_AGE_MS = 3_600_000
"""The age at which a request is reported as failed: its sender has given up."""
_MAX_NOTED_BYTES = 256 * 1024
"""The maximum size of the names and ids of topics in a position: the broker bounds its record."""
_ID_BYTES = 40
"""The size of a topic's id and the characters around it."""
_OF_SERVICES = re.compile("_|connect-|mm2-")
"""The beginnings of the names of topics that Schema Registry, Confluent's services, Connect and MirrorMaker need."""

_POLL_SECONDS = 0.1
_REFRESH_SECONDS = 30.0


@dataclass(slots=True)
class ApplierStats(LoopStats):
    """The counts of an applier."""

    topics: int = 0
    """Topics carried out."""
    found_done: int = 0
    """Topics that a previous applier had carried out already."""
    failed: int = 0
    """Topics that the cluster did not change, or the settings do not allow."""
    repeated: int = 0
    """Decisions that were read a second time."""
    batches: int = 0
    ended_at: float | None = None
    """The end of the last batch [s since the epoch]."""
    positions: Mapping[Partition, int] = field(default_factory=dict)
    """The next offset to apply, by partition of the decisions."""

    def __str__(self) -> str:
        return (
            f"topics: {self.topics} carried out, {self.found_done} found done, {self.failed} failed; "
            f"decisions repeated: {self.repeated}"
        )

    def add(self, results: Sequence[TopicResult]) -> None:
        """Count results."""
        for result in results:
            if result.error_code:
                self.failed += 1
            elif result.found_done:
                self.found_done += 1
            else:
                self.topics += 1


@dataclass(frozen=True, slots=True)
class _AdmittedDecision:
    """A decision to carry out as far as it admits, its record, and whether a previous applier may have started it."""

    key: bytes | None
    source: Source
    decision: Decision
    maybe_done: bool

    @property
    def expires_at(self) -> int:
        """The time from which it must not be started [epoch ms]."""
        too_old_at = self.decision.timestamp + _MAX_AGE_MS
        return too_old_at if self.decision.expires_at is None else min(self.decision.expires_at, too_old_at)

    def had_expired(self, started_at: int) -> bool:
        """Return whether nothing of it is or was carried out, since it had expired when its batch was started."""
        return self.expires_at <= started_at and not self.maybe_done and self.decision.repeats is None


class TopicPermissions:
    """Permissions by topic name.

    Kafka's own topics, whose names begin with two underscores, are always denied, and those of other services unless an
    alternative that begins as their names do matches: `.*` does not name them.
    """

    def __init__(
        self, pattern: str = ".*", protected: Iterable[str] = (), user_topic_prefix: str | None = None
    ) -> None:
        """Allow topics whose whole name matches; {user} and {client_id} in the pattern are those of the request."""
        self._pattern = pattern
        self._protected = frozenset(protected)
        self._user_topic_prefix = user_topic_prefix

    def denial(self, name: str, user: str, client_id: str) -> str | None:
        """Return why a user may not change a topic; None if they may."""
        is_user_topic = self._user_topic_prefix is not None and user_of(name, self._user_topic_prefix) is not None
        if is_user_topic or name in self._protected or name.startswith("__"):
            return f"topic {name} is protected"
        for_user = self._pattern.replace("{user}", re.escape(user))

        def matches(pattern: str) -> bool:
            return re.fullmatch(pattern.replace("{client_id}", re.escape(client_id)), name) is not None

        if not matches(for_user):
            return f"{user} may not change topic {name}: applier.topic_pattern is {self._pattern}"
        service = _OF_SERVICES.match(name)
        if service and not any(map(matches, _alternatives(for_user, service[0]))):
            return (
                f"topic {name} may belong to another service: applier.topic_pattern is {self._pattern}, which matches "
                f"it with no alternative that begins with {service[0]}"
            )
        return None


def _alternatives(pattern: str, start: str) -> Iterator[str]:
    parts = re.split(r"(?<!\\)[|]", pattern)
    for first, part in enumerate(parts):
        if part.replace("\\-", "-").removeprefix("^").startswith(start):
            for alternative in accumulate(parts[first:], "{}|{}".format):
                with suppress(re.error):  # its group or set goes on in the next part
                    re.compile(alternative)
                    yield alternative
                    break


class Applier:
    """A consumer of decisions and producer of results. One of a group works at a time: the latest to start."""

    def __init__(self, settings: Settings, stop: threading.Event, stats: ApplierStats | None = None) -> None:
        self._settings = settings
        self._stop = stop
        self._ledger = Ledger(settings)
        self._target = Target(client_config(settings.target_connection), stop, self._before_call)
        self._permissions = TopicPermissions(
            settings.applier.topic_pattern,
            [*settings.topics.names, *settings.applier.protected_topics],
            settings.topics.user_topic_prefix,
        )
        self._offsets: dict[int, AppliedOffset] = {}
        own = {"auto.offset.reset": "error"}
        self._consumer = make_consumer(settings.kafka.connection, settings.applier.group, own)
        self._at_end: set[int] = set()
        self._refresh = Every(_REFRESH_SECONDS)
        self._answer_due = Deadline(0)
        """When a cluster that does not answer counts as lost."""
        self._logged_code = 0
        self._skipped = Skipped("a decision")
        self.stats = stats or ApplierStats()

    def run(self, *, once: bool = False) -> None:
        """Carry out admitted mutations until stopped, or with `once` until all existing ones are done."""
        try:
            while not self._stop.is_set():
                self.stats.looped_at = time.monotonic()
                if self._refresh.is_due():
                    self._assign_new_partitions()
                self._carry_out(self._read())
                if once and self._at_end >= self._offsets.keys():
                    break
            self._ledger.begin(
                {number: AppliedOffset(position.offset, position.offset) for number, position in self._offsets.items()}
            )
            self._ledger.commit()
        except Stopped:
            self._ledger.abort()
        finally:
            self._consumer.close()

    def _before_call(self) -> None:
        """Record progress before each call of a batch, and check that this applier is not fenced."""
        self.stats.looped_at = time.monotonic()
        self._ledger.check_not_fenced()

    def _assign_new_partitions(self) -> None:
        """Read the decisions' partitions that are not assigned yet, including those added while it runs."""
        new = self._new_partitions()
        if new is None:
            return
        self._answer_due = Deadline(_REFRESH_SECONDS + self._settings.applier.timeout_seconds)
        if new:
            self._offsets |= new
            topic = self._settings.topics.decisions
            starts = [TopicPartition(topic, number, position.offset) for number, position in new.items()]
            self._consumer.incremental_assign(starts)
        self._ledger.begin(self._offsets_with_next_batch())  # even without new partitions: it finds out if it is fenced
        self._ledger.commit()
        self._report_positions()

    def _new_partitions(self) -> dict[int, AppliedOffset] | None:
        """Return the unassigned partitions; None if the cluster has not answered for a while, but may answer again."""
        connection, topic = self._settings.kafka.connection, self._settings.topics.decisions
        timeout = self._settings.kafka.timeout_seconds
        with cluster_errors(f"find the partitions of {topic}", connection):
            try:
                return {
                    number: self._ledger.resume_at(
                        number, *offset_range(self._consumer, TopicPartition(topic, number), timeout)
                    )
                    for number in topic_partitions(self._consumer, topic, timeout)
                    if number not in self._offsets
                }
            except KafkaException:
                if self._answer_due.has_passed:
                    raise
                return None  # the assigned ones suffice until the next refresh

    def _read(self) -> list[Message]:
        messages = []
        for message in poll_batch(self._consumer, _BATCH, _POLL_SECONDS):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._at_end.add(message_source(message).partition)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                raise ClusterError(f"decisions were deleted before they were carried out: {error.str()}")
            elif error.code() != self._logged_code:  # it is logged once, and not with every attempt
                self._logged_code = error.code()
                _log.warning("cannot read decisions: %s", error.str())
        return messages

    def _carry_out(self, messages: Sequence[Message]) -> None:
        """Carry out a batch; it starts only if no other applier has taken over."""
        if not messages:
            return
        decisions = [decision for decision in map(self._admitted, messages) if decision is not None]
        self._note_deletions(decisions)
        plans = [self._plan(decision) for decision in decisions]
        for message in messages:
            source = message_source(message)
            self._offsets[source.partition] = self._offsets[source.partition].advanced(source.offset + 1)
        self._ledger.begin(self._offsets_with_next_batch())
        started_at = now_ms()
        tasks = with_later_growth(step for plan in plans for step in plan if isinstance(step, Task))
        outcomes = iter(self._target.carry_out(tasks, self._settings.applier.timeout_seconds))
        results = [[next(outcomes) if isinstance(step, Task) else step for step in plan] for plan in plans]
        expired = [decision for decision in decisions if decision.had_expired(started_at)]
        template = self._settings.quota.rejection_message
        self._ledger.commit(
            (decision.key, _result(decision, _with_rejected(decision.decision, topics, template, started_at)))
            for decision, topics in zip(decisions, results, strict=True)
        )
        self._withdraw(expired)
        for topics in results:
            self.stats.add(topics)
        self.stats.batches += 1
        self.stats.ended_at = time.time()
        self._report_positions()

    def _withdraw(self, expired: Iterable[_AdmittedDecision]) -> None:
        """Withdraw the requests that were charged for nothing, next to each of them: it is sure that they have expired.

        Users who write to topics of their own cannot withdraw.
        """
        topic = self._settings.topics.requests
        charged = [each for each in expired if sum(each.decision.charged) and each.decision.source.topic == topic]
        if not charged:
            return
        own = {"message.max.bytes": MAX_REQUEST_RECORD_BYTES * 2}
        producer = Producer(client_config(self._settings.kafka.connection, own))
        records = (
            (codec.encode(each.decision.request.withdrawal), each.key, each.decision.source.partition)
            for each in charged
        )
        error = write_each(producer, topic, records, self._settings.kafka.timeout_seconds)
        if error is not None:
            _log.warning(
                "what had expired before it was started may stay charged: cannot write %s: %s", topic, error.str()
            )

    def _note_deletions(self, decisions: Sequence[_AdmittedDecision]) -> None:
        """Write the ids of the topics that this batch deletes before it does.

        An applier that repeats the batch then does not delete a topic that was created again. Of several deletions of
        a name only the first is noted: the others are of topics that do not exist yet.
        """
        first: dict[str, Source | None] = {}
        left = _MAX_NOTED_BYTES
        for admitted in decisions:
            if admitted.decision.operation is Operation.DELETE_TOPICS and not admitted.decision.validate_only:
                for name in (topic.name for topic in admitted.decision.topics if not topic.error_code):
                    left -= len(name) + _ID_BYTES
                    first.setdefault(name, admitted.source if left >= 0 else None)
        noted = {name: source for name, source in first.items() if source and not self._noted(source, name)}
        topic_ids = self._target.topic_ids(list(noted), self._settings.applier.timeout_seconds)
        for name, topic_id in topic_ids.items():
            source = noted[name]
            position = self._offsets[source.partition]
            ids = position.deletions.get(source.offset, {}) | {name: topic_id}
            deletions = position.deletions | {source.offset: ids}
            self._offsets[source.partition] = msgspec.structs.replace(position, deletions=deletions)
        if topic_ids:
            self._ledger.begin(self._offsets_with_next_batch())
            self._ledger.commit()

    def _noted(self, source: Source, name: str) -> str | None:
        """Return the id of the topic that a decision deletes, if it is noted."""
        return self._offsets[source.partition].deletions.get(source.offset, {}).get(name)

    def _report_positions(self) -> None:
        topic = self._settings.topics.decisions
        self.stats.positions = {(topic, number): position.offset for number, position in self._offsets.items()}

    def _offsets_with_next_batch(self) -> dict[int, AppliedOffset]:
        """Return the offsets, with the next batch marked as possibly started."""
        return {
            number: msgspec.structs.replace(position, maybe_until=max(position.maybe_until, position.offset + _BATCH))
            for number, position in self._offsets.items()
        }

    def _admitted(self, message: Message) -> _AdmittedDecision | None:
        source = message_source(message)
        try:
            decision = read_decision(message.value())
        except BadRecord as error:
            self._skipped.add(message, error)
            return None
        if not decision.apply:
            return None
        if self._ledger.mark_done(decision.decision_id, decision.timestamp):
            self.stats.repeated += 1
            return None
        maybe_done = source.offset < self._offsets[source.partition].maybe_until
        return _AdmittedDecision(message.key(), source, decision, maybe_done)

    def _plan(self, admitted: _AdmittedDecision) -> list[Task | TopicResult]:
        """Return the task of each admitted topic, or the result of one that is not to be carried out."""
        decision = admitted.decision
        counts = Counter(topic.name for topic in decision.topics)
        return [
            self._plan_topic(admitted, topic, counts[topic.name], repeated=number < decision.paid_topics)
            for number, topic in enumerate(decision.topics)
            if not topic.error_code
        ]

    def _plan_topic(
        self, admitted: _AdmittedDecision, topic: TopicDecision, count: int, *, repeated: bool
    ) -> Task | TopicResult:
        decision = admitted.decision
        if count > 1:
            return failure(topic.name, KafkaError.INVALID_REQUEST, "Duplicate topic name.")
        if decision.mode is Mode.PERMISSIVE and not self._settings.applier.permissive:
            return failure(
                topic.name,
                KafkaError.POLICY_VIOLATION,
                "the request has an old API version, which quotas never reject; "
                "not carried out, since applier.permissive is false",
            )
        denial = self._permissions.denial(topic.name, decision.user, decision.client_id)
        if denial is not None:
            return failure(topic.name, KafkaError.TOPIC_AUTHORIZATION_FAILED, denial)
        first = decision.repeats.decision_id if decision.repeats and repeated else None
        topic_id = self._noted(admitted.source, topic.name)
        limit, maybe_done = admitted.expires_at, admitted.maybe_done
        return Task(decision.operation, topic, decision.validate_only, limit, maybe_done, first, topic_id)


def _with_rejected(decision: Decision, carried_out: list[TopicResult], template: str, now: int) -> list[TopicResult]:
    """Return the results of a decision's topics in their order, with those that the quota rejected."""
    if all(decision.admitted):
        return carried_out
    shortfall, results = Shortfall.of(decision), iter(carried_out)
    exhausted = shortfall.sentence(decision.retry_at - now) if shortfall else None

    def rejected(topic: TopicDecision) -> TopicResult:
        sentence = exhausted if topic.reason is Reason.EXHAUSTED else topic.error_message
        return TopicResult(topic.name, topic.error_code, topic.error, client_message(template, sentence))

    return [rejected(topic) if topic.error_code else next(results) for topic in decision.topics]


def _result(admitted: _AdmittedDecision, topics: list[TopicResult]) -> MutationResult:
    decision = admitted.decision
    return MutationResult(
        decision_id=decision.decision_id,
        request_id=decision.request_id,
        user=decision.user,
        client_id=decision.client_id,
        operation=decision.operation,
        validate_only=decision.validate_only,
        topics=topics,
        timestamp=decision.timestamp,
        source=admitted.source,
    )
