"""The applier: carries admitted mutations out, each once, across crashes and repeats at any point."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from quota.client.task import Task, admitted
from quota.errors import BadRecord, ClusterError
from quota.kafka.applier.ledger import AppliedOffset, Ledger
from quota.kafka.applier.permissions import TopicPermissions
from quota.kafka.applier.stats import ApplierStats
from quota.kafka.clients import client_config, ends, partitions_of, reason, source_of, tail, take
from quota.kafka.target import Stopped, Target, failure
from quota.records import codec
from quota.records.decision import Decision, TopicDecision, paid_topics
from quota.records.record import Source
from quota.records.request import Mode
from quota.records.result import MutationResult, TopicResult
from quota.settings.model import Settings

_decoder = msgspec.json.Decoder(Decision)

_log = logging.getLogger(__name__)

_BATCH = 100
_POLL_SECONDS = 0.1
_REFRESH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Heard:
    """An admitted decision: its record's key, where it stands, and whether it may have been begun before."""

    key: bytes | None
    source: Source
    decision: Decision
    maybe_done: bool


class Applier:
    """Reads decisions and writes results. One of a group works at a time: the latest that was started."""

    def __init__(self, settings: Settings, stop: threading.Event, tally: ApplierStats | None = None) -> None:
        """Take over from whichever applier works.

        Args:
            settings: the settings.
            stop: ends it between two calls.
            tally: what it counts in.

        Raises:
            ClusterError: the cluster does not answer in time.
        """
        self._settings = settings
        self._stop = stop
        self._ledger = Ledger(settings)
        self._target = Target(client_config(settings.target_connection), stop, self._ledger.hold)
        self._allowed = TopicPermissions(
            settings.apply.topic_pattern,
            [*settings.topics.names, *settings.apply.protected_topics],
            settings.topics.by_users,
        )
        self._consumer = tail(settings.kafka.connection, settings.apply.group, {"auto.offset.reset": "error"})
        self._places: dict[int, AppliedOffset] = {}
        self._at_end: set[int] = set()
        self._looked = 0.0
        self._warned = 0
        self.tally = tally or ApplierStats()

    def run(self, *, once: bool = False) -> None:
        """Carry out what is admitted until stopped, or with `once` until all that is there is done.

        Raises:
            ClusterError: another applier has taken over, or the cluster does not answer.
        """
        try:
            while not self._stop.is_set():
                self._look_for_partitions()
                self._carry_out(self._read())
                if once and self._at_end >= self._places.keys():
                    break
            self._ledger.begin(
                {number: AppliedOffset(each.offset, each.offset) for number, each in self._places.items()}
            )
            self._ledger.commit()
        except Stopped:
            self._ledger.abort()
        finally:
            self._consumer.close()

    def _look_for_partitions(self) -> None:
        """Take on the decisions' partitions, also those that are added while it runs."""
        if self._places and time.monotonic() - self._looked < _REFRESH_SECONDS:
            return
        self._looked = time.monotonic()
        topic = self._settings.topics.decisions
        timeout = self._settings.kafka.timeout_seconds
        try:
            found = partitions_of(self._consumer, topic, timeout)
            new = {
                number: self._ledger.place(number, *ends(self._consumer, TopicPartition(topic, number), timeout))
                for number in found
                if number not in self._places
            }
        except KafkaException as error:
            if self._places:
                return  # those that it has are enough until the next time
            raise ClusterError(f"cannot find the partitions of {topic}: {reason(error)}") from None
        if new:
            self._places |= new
            self._consumer.incremental_assign([TopicPartition(topic, number, new[number].offset) for number in new])
        self._ledger.begin(self._written_ahead())  # also with nothing new: it tells whether another has taken over
        self._ledger.commit()
        self._tell_places()

    def _read(self) -> list[Message]:
        messages = []
        for message in take(self._consumer, _BATCH, _POLL_SECONDS):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._at_end.add(source_of(message).partition)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                raise ClusterError(f"decisions were deleted before they were carried out: {error.str()}")
            else:
                self._warn(error)
        return messages

    def _warn(self, error: KafkaError) -> None:
        """What keeps decisions from being read, once and not with every attempt."""
        if error.code() != self._warned:
            self._warned = error.code()
            _log.warning("cannot read decisions: %s", error.str())

    def _carry_out(self, messages: Sequence[Message]) -> None:
        """Carry out a batch, which is begun only if no other applier has taken over."""
        if not messages:
            return
        heard = [each for each in map(self._heard, messages) if each is not None]
        for message in messages:
            source = source_of(message)
            maybe_until = self._places[source.partition].maybe_until
            self._places[source.partition] = AppliedOffset(source.offset + 1, maybe_until)
        self._ledger.begin(self._written_ahead())
        plans = [self._plan(each) for each in heard]
        tasks = [step for plan in plans for step in plan if isinstance(step, Task)]
        outcomes = iter(self._target.carry_out(tasks, self._settings.apply.timeout_seconds))
        results = [[next(outcomes) if isinstance(step, Task) else step for step in plan] for plan in plans]
        self._ledger.commit((each.key, _result(each, topics)) for each, topics in zip(heard, results, strict=True))
        for topics in results:
            self.tally.add(topics)
        self.tally.end_batch(time.time())
        self._tell_places()

    def _tell_places(self) -> None:
        topic = self._settings.topics.decisions
        self.tally.places = {(topic, number): place.offset for number, place in self._places.items()}

    def _written_ahead(self) -> dict[int, AppliedOffset]:
        """The places, with the batch after this one as what may be begun."""
        return {
            number: AppliedOffset(place.offset, max(place.maybe_until, place.offset + _BATCH))
            for number, place in self._places.items()
        }

    def _heard(self, message: Message) -> _Heard | None:
        """A decision to carry out, if the message is one."""
        source = source_of(message)
        try:
            decision = codec.decode(message.value(), _decoder)
        except BadRecord as error:
            _log.warning("%s is no decision and is passed over: %s", source, error)
            return None
        if not decision.apply or not admitted(decision.topics):
            return None
        if self._ledger.knows(decision.decision_id, decision.timestamp):
            self.tally.repeated += 1
            return None
        return _Heard(message.key(), source, decision, source.offset < self._places[source.partition].maybe_until)

    def _plan(self, heard: _Heard) -> list[Task | TopicResult]:
        """What is to be done about each admitted topic of a decision."""
        names = Counter(topic.name for topic in heard.decision.topics)
        paid = paid_topics(heard.decision.repeats)
        return [
            self._plan_topic(heard, topic, names[topic.name], repeated=number < paid)
            for number, topic in enumerate(admitted(heard.decision.topics))
        ]

    def _plan_topic(self, heard: _Heard, topic: TopicDecision, times: int, *, repeated: bool) -> Task | TopicResult:
        decision = heard.decision
        if times > 1:
            return failure(topic.name, KafkaError.INVALID_REQUEST, "Duplicate topic name.")
        if decision.mode is Mode.PERMISSIVE and not self._settings.apply.permissive:
            return failure(topic.name, KafkaError.POLICY_VIOLATION, "old API versions pass quotas by: apply.permissive")
        why_not = self._allowed.why_not(topic.name, decision.user, decision.client_id)
        if why_not is not None:
            return failure(topic.name, KafkaError.TOPIC_AUTHORIZATION_FAILED, why_not)
        too_old = decision.timestamp + round(self._settings.apply.max_age_seconds * 1000)
        expires_at = too_old if decision.expires_at is None else min(decision.expires_at, too_old)
        first = decision.repeats.decision_id if decision.repeats and repeated else None
        return Task(decision.operation, topic, decision.validate_only, expires_at, heard.maybe_done, first)


def _result(heard: _Heard, topics: list[TopicResult]) -> MutationResult:
    decision = heard.decision
    return MutationResult(
        decision_id=decision.decision_id,
        request_id=decision.request_id,
        user=decision.user,
        client_id=decision.client_id,
        operation=decision.operation,
        validate_only=decision.validate_only,
        topics=topics,
        timestamp=decision.timestamp,
        source=heard.source,
    )
