"""Documents on a deployment: its settings, and the state of each part.

Times are epoch ms. A field is null if it is unknown: the part cannot be reached, or does not exist.
"""

from typing import Literal, TypeAlias

import msgspec

from quota.settings.listing import ListedSetting
from quota.timeline.change import ScheduledChange

TopicKind: TypeAlias = Literal["requests", "decisions", "dead_letters", "quotas", "results", "positions"]


class ProgramStatus(msgspec.Struct, frozen=True):
    """The program that reports."""

    version: str
    state_version: int
    """The version of the bucket state that it continues."""


class KafkaStatus(msgspec.Struct, frozen=True):
    """The cluster with the topics of the deployment."""

    servers: str
    error: str | None = None
    """Why it cannot be read; null if it can."""
    cluster_id: str | None = None
    brokers: list[int] | None = None
    """The ids of the brokers that are up."""


class StorageStatus(msgspec.Struct, frozen=True):
    """The storage root."""

    root: str
    error: str | None = None
    """Why it cannot be read; null if it can."""
    state_version: int | None = None
    """The version of the bucket state that was used last, from `deployment/`."""
    topic_count: int | None = None
    """The number of topics that the root belongs to, from `deployment/`."""
    retired: list[str] | None = None
    """Topics of users that were deleted for good, from `deployment/`."""


class ConfigDifference(msgspec.Struct, frozen=True):
    """A config of a topic that differs from the value with which the jobs create it."""

    config: str
    """The name of the config; or `partitions`, or `first offset` of the quota topic if records were deleted."""
    created: str
    """The value with which the jobs create the topic."""
    found: str


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic of the deployment."""

    name: str
    kind: TopicKind
    """Its purpose."""
    needed: bool
    """Whether `enforce` and `audit` need it; `results` and `positions` are for `applier` and `observe follow`."""
    exists: bool | None = None
    """Whether the topic exists, and this principal may describe it."""
    partition_count: int | None = None
    replication_factor: int | None = None
    leaderless: int | None = None
    """The number of partitions without a leader."""
    under_replicated: int | None = None
    """The number of partitions with a replica that lags behind or is offline."""
    cleanup_policy: str | None = None
    """`delete`, `compact` or both."""
    retention_ms: int | None = None
    """The time in ms that records are retained; -1 for no limit."""
    timestamp_type: str | None = None
    """`LogAppendTime` or `CreateTime`."""
    differences: list[ConfigDifference] | None = None
    """The configs that differ from those with which the jobs create the topic; not all differences do harm."""


class PartitionLag(msgspec.Struct, frozen=True):
    """The records of a partition that a query has not read."""

    topic: str
    partition: int
    position: int | None
    """The offset at which the next batch starts; null if it starts at the first record."""
    first: int
    """The offset of the first record that the partition still holds."""
    end: int
    lag: int
    """The number of offsets to read; a transaction's marker counts as one."""
    overdue: int
    """Those among them that have waited for more than a minute."""
    lost: int
    """The number of offsets that were removed before the query read them."""
    held: int = 0
    """Those among the overdue that nobody can read, because a transaction is open."""


class BatchStatus(msgspec.Struct, frozen=True):
    """A micro-batch of a query."""

    number: int
    started_at: int | None
    """When it was started, epoch ms."""


class QueryStatus(msgspec.Struct, frozen=True):
    """A query, or the applier, and how far it has read."""

    name: Literal["enforce", "audit", "applier"]
    reads: list[str]
    position_in: str
    """Where its position is stored: the folder of its checkpoint, or a topic and the key of the record."""
    exists: bool | None = None
    """Whether there is a position: the query has run here."""
    running: bool | None = None
    """Whether it runs, by a metrics endpoint or a record of the applier; null if unknown."""
    running_by: str | None = None
    """The source of this information."""
    last_batch: BatchStatus | None = None
    """The last finished batch; for the applier, `started_at` is the time at which it last stored its position."""
    open_batch: BatchStatus | None = None
    """The batch that is started and not finished."""
    lag: int | None = None
    """The sum over the partitions."""
    overdue: int | None = None
    """The number of those that have waited for more than a minute."""
    partitions: list[PartitionLag] | None = None
    active: str | None = None
    """The process that holds its lease, with its host; null if there is none, or if it has ended."""
    active_since: int | None = None
    """When that process acquired the lease, epoch ms by the clock of its host."""


class TableStatus(msgspec.Struct, frozen=True):
    """A Delta table."""

    name: str
    exists: bool | None = None
    error: str | None = None
    """Why it cannot be read; null if it can, or does not exist."""
    version: int | None = None
    schema_version: int | None = None
    rows: int | None = None
    """The number of rows, if it is known for all files."""
    files: int | None = None
    size_bytes: int | None = None
    committed_at: int | None = None
    """The time of the last commit, epoch ms."""
    maintained_at: int | None = None
    """The time of the last daily upkeep, or of the table's creation before the first one, epoch ms."""


class EndpointStatus(msgspec.Struct, frozen=True):
    """A metrics endpoint that was queried for running jobs."""

    address: str
    error: str | None = None
    """Why it cannot be read; null if it can."""
    ready: bool | None = None
    """Whether its job is ready (`/readyz`)."""
    jobs: list[str] | None = None
    """The names of its jobs: `enforce`, `audit`, `applier`, `gateway`, `push`, `observe`."""
    reason: str | None = None
    """Why its job is ready or not."""


class CallbackStatus(msgspec.Struct, frozen=True):
    """The class that decides which requests share a quota, and its knowledge of the cluster."""

    class_name: str
    metadata_at: int | None
    """The time of the cluster's metadata that it has, epoch ms; null if none were published."""


class Status(msgspec.Struct, frozen=True):
    """The state of a deployment."""

    at: int
    """The time of this status, epoch ms."""
    ok: bool
    problems: list[str]
    """Problems: parts that are missing, unreachable or unsuitable, each with what to do."""
    program: ProgramStatus
    kafka: KafkaStatus
    storage: StorageStatus
    topics: list[TopicStatus]
    queries: list[QueryStatus]
    """The queries that `enforce` and `audit` run, and the applier."""
    tables: list[TableStatus]
    endpoints: list[EndpointStatus]
    scheduled: list[ScheduledChange] | None = []
    """The scheduled changes of the quota log; null if it cannot be read."""
    callback: CallbackStatus | None = None
    """The callback in force; null for the eight levels, or if the quota log cannot be read."""


class SettingsInForce(msgspec.Struct, frozen=True):
    """The output of `config describe`."""

    file: str | None
    """The settings file that was read; null for none."""
    settings: list[ListedSetting]
    """The settings, in the order of the sections and their keys."""
