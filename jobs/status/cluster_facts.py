"""Reads the facts about a deployment on the cluster: its topics, their offsets, and the applier's position."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka.admin import OffsetSpec

from quota.errors import BadRecord, ClusterError
from quota.kafka.applier.ledger import AppliedOffset, read_offsets
from quota.kafka.clients import cluster_errors
from quota.kafka.positions import read_positions
from quota.kafka.reading import EARLIEST, EndOffsets, Partition, Skipped
from quota.kafka.timing import now_ms
from quota.kafka.topics.layouts import ClusterLayout
from quota.kafka.topics.specs import user_topic_names
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

OVERDUE_MS = 60_000
"""The time after which an unread record is overdue."""


@dataclass(frozen=True, slots=True)
class AppliedFacts:
    """The last stored position of an applier, and its time [epoch ms]."""

    offsets: Mapping[int, AppliedOffset]
    stored_at: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster, and the topics of the deployment on it."""

    layout: ClusterLayout
    ids: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    first: Mapping[Partition, int] = field(default_factory=dict)
    end: Mapping[Partition, int] = field(default_factory=dict)
    overdue: Mapping[Partition, int] = field(default_factory=dict)
    """The first offset after the records that are older than `OVERDUE_MS`."""
    applied: AppliedFacts | None = None
    errors: tuple[str, ...] = ()
    """Errors for facts that cannot be read; the other facts are present."""


def read_cluster_facts(settings: Settings) -> ClusterFacts:
    """Read the facts about the deployment from the cluster."""
    connection, timeout = settings.kafka.connection, settings.kafka.timeout_seconds
    reader = TopicAdmin(connection, timeout)
    layout = reader.layout()
    names = [name for name in deployment_topics(settings, layout.topics) if name in layout.topics]
    errors: list[str] = []
    configs, rejected = reader.configs(names)
    errors += [f"the configs of topic {name} cannot be read: {why}" for name, why in rejected.items()]
    partitions = [
        (name, partition.id) for name in names for partition in layout.topics[name].partitions if partition.leader >= 0
    ]
    offsets = EndOffsets(connection, timeout)
    ids: dict[str, str] = {}
    first: dict[Partition, int] = {}
    end: dict[Partition, int] = {}
    overdue: dict[Partition, int] = {}
    try:
        ids = reader.ids(names)
        first = offsets.fetch(partitions, EARLIEST)
        older = offsets.fetch(partitions, OffsetSpec.for_timestamp(now_ms() - OVERDUE_MS))
        end = offsets.fetch(partitions)
        overdue = {partition: end[partition] if offset < 0 else offset for partition, offset in older.items()}
    except ClusterError as error:
        errors.append(str(error))
    applied = None
    if settings.topics.positions in layout.topics:
        try:
            applied = _read_applied(settings)
        except ClusterError as error:
            errors.append(str(error))
    return ClusterFacts(layout, ids, configs, first, end, overdue, applied, tuple(errors))


def deployment_topics(settings: Settings, existing: Iterable[str]) -> list[str]:
    """Return the topics of a deployment. If users have their own topics, these replace the shared one."""
    topics = settings.topics
    users = user_topic_names(existing, settings)
    return [name for name in topics.names if topics.user_topic_prefix is None or name != topics.requests] + users


def _read_applied(settings: Settings) -> AppliedFacts | None:
    """Return the position of the applier; None if none has run."""
    connection, topic = settings.kafka.connection, settings.topics.positions
    with cluster_errors(f"read topic {topic}", connection):
        positions = read_positions(connection, topic, settings.applier.group, settings.kafka.timeout_seconds)
    skipped = Skipped("a position of an applier")
    for message in reversed(positions):
        try:
            return AppliedFacts(read_offsets(message), int(message.timestamp()[1]))
        except BadRecord as error:
            skipped.add(message, error)
    return None
