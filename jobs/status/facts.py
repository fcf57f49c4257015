"""Reads the facts about a deployment: from the cluster, the storage root and the metrics endpoints of its jobs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pyarrow as pa
from confluent_kafka.admin import OffsetSpec
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from prometheus_client.parser import text_string_to_metric_families

from jobs.audit import query
from jobs.audit.quota_history import scheduled_changes
from jobs.audit.tables import TABLES, VERSION_PROPERTY, TableSpec, TableStore
from jobs.audit.upkeep import last_daily
from jobs.metrics.endpoint import READINESS_PATH
from jobs.metrics.families import STARTED
from jobs.query_names import AUDIT, ENFORCE
from jobs.storage.checkpoint import Checkpoint
from jobs.storage.deployment import Deployment
from jobs.storage.holder import Holder
from jobs.storage.lease import read_holder
from jobs.storage.stored_files import QUICK, ReadableFiles, stored_files
from quota.errors import BadRecord, ClusterError, MutationQuotaError
from quota.kafka.applier_ledger import AppliedOffset, read_offsets
from quota.kafka.librdkafka import cluster_errors
from quota.kafka.producers import read_positions
from quota.kafka.quotas.log import KafkaQuotas, QuotaLog
from quota.kafka.reading import Partition, Skipped
from quota.kafka.timing import now_ms
from quota.kafka.topics.specs import user_topic_names
from quota.kafka.topics.topic_admin import EARLIEST, ClusterLayout, TopicAdmin
from quota.settings import Settings
from quota.timeline.change import ScheduledChange
from schemas.buckets import STATE_VERSION
from schemas.documents.status import BatchStatus, CallbackStatus, EndpointStatus, TableStatus

CHECKPOINT_VERSIONS = {ENFORCE: STATE_VERSION, AUDIT: query.VERSION}
"""The version of each query's checkpoint, by the name of the query."""

_TIMEOUT_SECONDS = 2.0

_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 an endpoint may listen there

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
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    first: Mapping[Partition, int] = field(default_factory=dict)
    end: Mapping[Partition, int] = field(default_factory=dict)
    overdue: Mapping[Partition, int] = field(default_factory=dict)
    """The first offset after the records that are older than `OVERDUE_MS`."""
    stable: Mapping[Partition, int] = field(default_factory=dict)
    """The first offset of an open transaction, before which all records can be read; otherwise the end, or later."""
    applied: AppliedFacts | None = None
    errors: tuple[str, ...] = ()
    """Errors for facts that cannot be read; the other facts are present."""


def read_cluster_facts(settings: Settings) -> ClusterFacts:
    """Read the facts about the deployment from the cluster."""
    connection, timeout = settings.kafka.connection, settings.kafka.timeout_seconds
    admin = TopicAdmin(connection, timeout)
    layout = admin.layout()
    names = [name for name in deployment_topics(settings, layout.topics) if name in layout.topics]
    errors: list[str] = []
    configs, rejected = admin.configs(names)
    errors += [f"the configs of topic {name} cannot be read: {why}" for name, why in rejected.items()]
    partitions = [
        (name, found.partition) for name in names for found in layout.topics[name].partitions if found.leader >= 0
    ]
    facts = ClusterFacts(layout, configs=configs)
    try:
        facts = replace(facts, ids=admin.ids(names))
        facts = replace(facts, first=admin.offsets(partitions, EARLIEST))
        older = admin.offsets(partitions, OffsetSpec.for_timestamp(now_ms() - OVERDUE_MS))
        end = admin.offsets(partitions)
        overdue = {partition: end[partition] if offset < 0 else offset for partition, offset in older.items()}
        facts = replace(facts, end=end, overdue=overdue)
        # after the end, so that a short transaction is not below it
        facts = replace(facts, stable=admin.offsets(partitions, stable=True))
    except ClusterError as error:
        errors.append(str(error))
    if settings.topics.positions in layout.topics:
        try:
            facts = replace(facts, applied=_read_applied(settings))
        except ClusterError as error:
            errors.append(str(error))
    return replace(facts, errors=tuple(errors))


def deployment_topics(settings: Settings, existing: Iterable[str]) -> list[str]:
    """Return the topics of a deployment. If users have their own topics, these replace the shared one."""
    topics = settings.topics
    users = user_topic_names(existing, settings)
    return [name for name in topics.names if topics.user_topic_prefix is None or name != topics.requests] + users


def _read_applied(settings: Settings) -> AppliedFacts | None:
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


@dataclass(frozen=True, slots=True)
class QuotaLogFacts:
    """What the quota log says of the present and of the future."""

    scheduled: Sequence[ScheduledChange] = ()
    callback: CallbackStatus | None = None


def read_quota_facts(settings: Settings) -> QuotaLogFacts:
    """Read the scheduled changes and the callback from the quota log."""
    with closing(QuotaLog(KafkaQuotas.from_settings(settings, _TIMEOUT_SECONDS))) as log:
        log.read_to_end()
        setting, now = log.quotas.callback(log.now), log.now
        callback = None if setting.is_default else CallbackStatus(setting.class_name, log.quotas.metadata_at(now))
        return QuotaLogFacts(scheduled_changes(log.quotas, now), callback)


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """A query's checkpoint and its position."""

    folder: str
    version: int
    exists: bool
    holder: Holder | None = None
    """Who held the lease of the query last; None if nobody has run it."""
    damage: str | None = None
    """The file that Spark needs to resume and that is missing; None if the checkpoint is complete."""
    last_batch: BatchStatus | None = None
    open_batch: BatchStatus | None = None
    positions: Mapping[Partition, int] | None = None
    """The offsets at which the next batch starts."""


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """The content of a storage root."""

    deployment: Deployment
    checkpoints: Mapping[str, CheckpointFacts]
    tables: Mapping[str, TableStatus]


def read_storage(settings: Settings) -> StorageFacts:
    """Read the storage root of a deployment."""
    files = stored_files(settings, QUICK)
    deployment = Deployment.read(files)
    checkpoints = {name: read_checkpoint(files, name, version) for name, version in CHECKPOINT_VERSIONS.items()}
    tables = {table.name: _read_table(settings, table) for table in TABLES}
    return StorageFacts(deployment, checkpoints, tables)


def read_checkpoint(files: ReadableFiles, name: str, version: int) -> CheckpointFacts:
    """Read the checkpoint of a query."""
    checkpoint = Checkpoint.read(files, name, version)
    facts = CheckpointFacts(checkpoint.folder, version, checkpoint.exists, read_holder(files, name))
    if not checkpoint.exists:
        return facts
    last = checkpoint.last_finished
    opened = checkpoint.offsets[-1] if checkpoint.offsets and checkpoint.offsets[-1] != last else None
    return replace(
        facts,
        damage=checkpoint.missing(stateful=name == ENFORCE),
        last_batch=None if last is None else BatchStatus(last, checkpoint.started_at(files, last)),
        open_batch=None if opened is None else BatchStatus(opened, checkpoint.started_at(files, opened)),
        positions={(position.topic, position.partition): position.offset for position in checkpoint.positions(files)},
    )


def _read_table(settings: Settings, table: TableSpec) -> TableStatus:
    """Read the log of a table; rows are counted from the statistics of its files."""
    path = settings.storage.table(table.name)
    status = TableStatus(table.name)
    try:
        with TableStore.of(settings).errors(table):
            try:
                opened = DeltaTable(path, storage_options={**settings.storage.deltalake(), **QUICK})
            except TableNotFoundError:
                return TableStatus(table.name, exists=False)
            files = pa.table(opened.get_add_actions(flatten=True))
            (last,) = opened.history(1)
            properties = opened.metadata().configuration
            maintained = last_daily(opened)
        counts = files.column("num_records") if "num_records" in files.column_names else pa.nulls(files.num_rows)
        status = TableStatus(
            table.name,
            exists=True,
            version=opened.version(),
            schema_version=int(properties[VERSION_PROPERTY]) if VERSION_PROPERTY in properties else None,
            rows=None if counts.null_count else sum(counts.to_pylist()),
            files=files.num_rows,
            size_bytes=sum(files.column("size_bytes").to_pylist()),
            committed_at=last.get("timestamp"),
            maintained_at=round(maintained.timestamp() * 1000),
        )
        table.read_version(path, properties)
    except MutationQuotaError as error:
        return TableStatus(table.name, exists=status.exists, error=str(error))
    return status


_open = build_opener(ProxyHandler({})).open
"""Opens an HTTP URL without the proxy of the environment, because endpoints are on the local network."""


def read_endpoint(address: str) -> EndpointStatus:
    """Return the state of an endpoint (`host:port`), with the jobs that it serves."""
    host, _, port = address.rpartition(":")
    url = f"http://{_ALL_ADDRESSES.get(host, host)}:{port}"
    try:
        probed = _probe(url)
        return EndpointStatus(address, ready=probed["ok"], jobs=_read_jobs(url), reason=probed["reason"])
    except (OSError, HTTPException, ValueError, KeyError) as error:
        cause = getattr(error, "reason", None) or error
        return EndpointStatus(address, error=getattr(cause, "strerror", None) or str(cause))  # without [Errno -2]


def _probe(url: str) -> dict[str, Any]:
    try:
        with _open(f"{url}{READINESS_PATH}", timeout=_TIMEOUT_SECONDS) as answer:
            return json.load(answer)  # type: ignore[no-any-return]
    except HTTPError as error:
        with error:
            return json.load(error)  # type: ignore[no-any-return]


def _read_jobs(url: str) -> list[str]:
    with _open(f"{url}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return sorted(
        {sample.labels["query"] for family in families if family.name == STARTED for sample in family.samples}
    )
