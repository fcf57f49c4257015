"""The topics of a cluster, which one admin client lists, describes, creates and configures."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
    TopicMetadata,
)

from quota.kafka.librdkafka import KeptClient, client_config, cluster_errors, reason, retry
from quota.kafka.reading import Partition, end_of_transaction
from quota.kafka.timing import Deadline
from quota.kafka.topics.specs import TopicSpec
from quota.records.quota_log import Cluster
from quota.settings.connection import Connection
from quota.settings.secrets import MASK

K = TypeVar("K")
T = TypeVar("T")

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_NOT_AUTHORIZED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_NOT_KNOWN_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
"""What a broker answers that has not yet learned of a new topic from the controller."""


class Replicas(NamedTuple):
    """The replicas of a partition: the ids of their brokers."""

    partition: int
    leader: int
    """Below 0 while no replica leads the partition: it can be neither read nor written then."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster has it."""

    name: str
    partitions: tuple[Replicas, ...]
    """Its partitions, in their order."""
    topic_id: str = ""
    """The id that the cluster gave the topic, if it was described; one that is deleted and created again gets another.
    """
    configs: Mapping[str, str] = field(default_factory=dict)
    """Its configs, as far as they were read."""

    @property
    def replication_factor(self) -> int:
        """The smallest number of replicas of a partition."""
        return min((len(partition.replicas) for partition in self.partitions), default=1)

    @property
    def leaderless(self) -> int:
        """The number of partitions without a leader."""
        return sum(partition.leader < 0 for partition in self.partitions)

    @property
    def under_replicated(self) -> int:
        """The number of partitions with a replica that lags behind or is offline."""
        return sum(len(partition.in_sync) < len(partition.replicas) for partition in self.partitions)


@dataclass(frozen=True)
class ClusterLayout:
    """The brokers of a cluster, and its topics by name, without their ids and configs."""

    cluster_id: str
    brokers: tuple[int, ...]
    """The ids of those that run."""
    topics: Mapping[str, Topic]

    @cached_property
    def size(self) -> int:
        """The number of brokers, including those that are down but have replicas."""
        partitions = (partition for topic in self.topics.values() for partition in topic.partitions)
        return len({*self.brokers, *(broker for partition in partitions for broker in partition.replicas)})


class TopicAdmin:
    """The topics of a cluster. The client connects when it is first used. Errors are raised as ClusterErrors."""

    def __init__(
        self, connection: Connection, timeout_seconds: float, overrides: Mapping[str, str | float] | None = None
    ) -> None:
        """Store the connection; each call may take `timeout_seconds`. `overrides` are properties of the client."""
        self._timeout = timeout_seconds
        self.connection = connection
        self._overrides = overrides

    def layout(self) -> ClusterLayout:
        """Return the brokers and all topics that this principal may describe."""
        with self._errors(f"reach Kafka at {self.connection}"), self._kept.reporting() as client:
            found = client.list_topics(timeout=self._timeout)
        topics = {name: _listed(name, topic) for name, topic in sorted(found.topics.items()) if topic.error is None}
        return ClusterLayout(str(found.cluster_id), tuple(sorted(found.brokers)), topics)

    def ends(self, name: str) -> dict[Partition, int]:
        """Return the offset after the last record of each partition of a topic."""
        with self._errors(f"describe topic {name}"):
            partitions = self._existing([name])[name].partitions
        return self.offsets([(name, replicas.partition) for replicas in partitions])

    def ids(self, names: Collection[str]) -> dict[str, str]:
        """Return the ids of existing topics."""
        with self._errors("describe topics"):
            return {name: topic.topic_id for name, topic in self._existing(names).items()}

    def configs(self, names: Collection[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """Return the configs of existing topics, sensitive ones masked, and why those of others cannot be read."""
        with self._errors("describe the configs of topics"):
            configs, errors = self._described_configs(names)
        return configs, {name: reason(error) for name, error in errors.items()}

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        """Return topics with their ids and configs. A broker may not know a new topic for some ms, so this retries."""
        with self._errors(f"describe the topics {', '.join(names)}"):
            topics = retry(lambda: self._existing(names), Deadline(self._timeout), _NOT_KNOWN_YET)
            configs = retry(lambda: _all(self._described_configs(names)), Deadline(self._timeout), _NOT_KNOWN_YET)
        return {name: Topic(name, topic.partitions, topic.topic_id, configs[name]) for name, topic in topics.items()}

    def offsets(
        self, partitions: Collection[Partition], spec: OffsetSpec = _LATEST, *, stable: bool = False
    ) -> dict[Partition, int]:
        """Return an offset of each partition, however many, by one request to each leader.

        By default it is the offset after the last record, or with `stable` the first one of an open transaction, after
        which readers of committed records read nothing. It is -1 if no record has the time of the spec.
        """
        if not partitions:
            return {}
        specs = {TopicPartition(*partition): spec for partition in partitions}
        with self._errors(f"read the offsets of topics at {self.connection}"), self._kept.reporting() as client:
            level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
            futures = client.list_offsets(specs, isolation_level=level, request_timeout=self._timeout)
            by_partition = {(found.topic, found.partition): future for found, future in futures.items()}
            found = _all(self._kept.results(client, by_partition))
            offsets = {partition: result.offset for partition, result in found.items()}
            if OFFSET_INVALID in offsets.values():  # librdkafka's answer, without an error, while a leader moves
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return offsets

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics, unless another program creates them at the same time."""
        if not specs:
            return
        new = [
            NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.configs)) for spec in specs
        ]
        for name, future in self._kept.client.create_topics(new, operation_timeout=self._timeout).items():
            try:
                future.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue
                hint = "; if it exists, this principal may not even describe it" if code in _NOT_AUTHORIZED else ""
                with self._errors(f"create topic {name}", hint):
                    raise

    def delete(self, names: Sequence[str]) -> bool:
        """Delete those topics that a broker knows, and return whether it knew any: it learns of a deletion later."""
        with self._errors(f"delete topics such as {names[0]}"):
            topics, errors = describe_topics(self._kept, names, self._timeout)
            if topics:
                client = self._kept.client
                futures = client.delete_topics([*topics], operation_timeout=self._timeout)
                errors |= self._kept.results(client, futures)[1]
            for error in errors.values():
                if error.code() not in _NOT_KNOWN_YET:
                    raise KafkaException(error)
        return bool(topics)

    def configure(self, specs: Sequence[TopicSpec]) -> None:
        """Set the configs of existing topics, leaving their other configs alone."""
        if not specs:
            return
        resources = []
        for spec in specs:
            entries = [
                ConfigEntry(*config, incremental_operation=AlterConfigOpType.SET) for config in spec.configs.items()
            ]
            resources.append(ConfigResource(ResourceType.TOPIC, spec.name, incremental_configs=entries))
        futures = self._kept.client.incremental_alter_configs(resources, request_timeout=self._timeout)
        for resource, future in futures.items():
            with self._errors(f"alter topic {resource.name}"):
                future.result()

    @cached_property
    def _kept(self) -> KeptClient[AdminClient]:
        connection, overrides = self.connection, self._overrides  # a client that is left ends at once, without a cycle
        return KeptClient(lambda: AdminClient(client_config(connection, overrides)))

    def _errors(self, action: str, hint: str = "") -> AbstractContextManager[None]:
        return cluster_errors(action, self.connection, hint, self._overrides)

    def _existing(self, names: Collection[str]) -> dict[str, Topic]:
        return _all(describe_topics(self._kept, sorted(names), self._timeout))

    def _described_configs(self, names: Collection[str]) -> tuple[dict[str, dict[str, str]], dict[str, KafkaError]]:
        """Return the configs of topics, sensitive ones masked and sorted by name, and the errors of other topics."""
        if not names:
            return {}, {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(names)]
        client = self._kept.client
        futures = client.describe_configs(resources, request_timeout=self._timeout)
        found, errors = self._kept.results(client, {resource.name: future for resource, future in futures.items()})
        return {
            topic: {name: MASK if entry.is_sensitive else entry.value or "" for name, entry in sorted(entries.items())}
            for topic, entries in found.items()
        }, errors


class OpenTransactions:
    """The transactions that hide records of topics from readers of committed ones, for longer than between two looks.

    A transaction hides the records after its first one until it ends, also those of others.
    """

    def __init__(self, topics: TopicAdmin) -> None:
        self._topics = topics
        self._open: Mapping[Partition, int] = {}

    def look(self, ends: Mapping[Partition, int]) -> str:
        """Return one that was open at the last look, too, and how to end it; `ends` are those of the partitions now."""
        stable = self._topics.offsets(ends.keys(), stable=True)
        before, self._open = self._open, {each: stable[each] for each, end in ends.items() if stable[each] < end}
        still = (each for each in self._open.items() if each in before.items())
        return next((end_of_transaction(str(self._topics.connection), *each) for each in still), "")


def describe_topics(
    kept: KeptClient[AdminClient], names: Sequence[str], seconds: float
) -> tuple[dict[str, Topic], dict[str, KafkaError]]:
    """Return the topics that a broker knows, with their ids and without their configs, and the errors of the others."""
    if not names:
        return {}, {}
    client = kept.client
    futures = client.describe_topics(TopicCollection([*names]), request_timeout=seconds)
    topics, errors = kept.results(client, futures)
    return {name: _described(topic) for name, topic in topics.items()}, errors


def read_cluster(connection: Connection, timeout_seconds: float) -> Cluster:
    """Read the topics of a cluster and the leaders of their partitions."""
    topics = TopicAdmin(connection, timeout_seconds).layout().topics
    return Cluster(
        {
            name: [None if partition.leader < 0 else partition.leader for partition in topic.partitions]
            for name, topic in topics.items()
        }
    )


def _all(outcome: tuple[dict[K, T], dict[K, KafkaError]]) -> dict[K, T]:
    """Return the results if there is no error."""
    results, errors = outcome
    for error in errors.values():
        raise KafkaException(error)
    return results


def _listed(name: str, topic: TopicMetadata) -> Topic:
    partitions = (topic.partitions[number] for number in sorted(topic.partitions))
    return Topic(name, tuple(Replicas(p.id, p.leader, tuple(p.replicas), tuple(p.isrs)) for p in partitions))


def _described(topic: TopicDescription) -> Topic:
    return Topic(
        topic.name,
        tuple(
            Replicas(
                partition.id,
                -1 if partition.leader is None else partition.leader.id,
                tuple(node.id for node in partition.replicas),
                tuple(node.id for node in partition.isr),
            )
            for partition in sorted(topic.partitions, key=lambda partition: partition.id)
        ),
        str(topic.topic_id),
    )
