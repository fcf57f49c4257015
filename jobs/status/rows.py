"""The topics and queries of a deployment: how they are, how they should be, and the problems, each with advice."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from jobs.query_names import APPLIER, AUDIT, ENFORCE
from jobs.status.facts import CHECKPOINT_VERSIONS, CheckpointFacts, ClusterFacts, StorageFacts, deployment_topics
from jobs.storage.deployment import Deployment
from quota.admission.identity import user_of
from quota.kafka.reading import Partition, end_of_transaction
from quota.kafka.topics.preparation import cleanup_warnings, faults, weaknesses
from quota.kafka.topics.specs import TopicSpec, requests_spec, topic_specs
from quota.kafka.topics.topic_admin import Topic
from quota.settings import Settings
from quota.settings.storage import checkpoint_folder
from quota.text import plural
from schemas.documents.status import (
    BatchStatus,
    ConfigDifference,
    EndpointStatus,
    PartitionLag,
    QueryStatus,
    TopicKind,
    TopicStatus,
)

_QUERIES: tuple[Literal["enforce", "audit"], ...] = ("enforce", "audit")

_APPLIER_SILENT_MS = 90_000
"""The age of its position from which an applier counts as stopped. A running applier stores it every 30 s."""

_OPTIONAL = ("results", "positions")
"""The topics of `applier` and `observe follow`, which create them."""


def topic_rows(settings: Settings, cluster: ClusterFacts | None) -> list[TopicStatus]:
    """Return all topics; only their names if the cluster cannot be reached."""
    kinds: dict[str, TopicKind] = {getattr(settings.topics, kind): kind for kind in get_args(TopicKind)}
    existing = cluster.layout.topics if cluster else {}
    specs = {spec.name: spec for spec in topic_specs(settings)}
    rows = []
    for name in deployment_topics(settings, existing):
        kind = kinds.get(name, "requests")
        needed = kind not in _OPTIONAL
        if cluster is None or name not in existing:
            rows.append(TopicStatus(name, kind, needed, exists=None if cluster is None else False))
            continue
        layout, configs = existing[name], cluster.configs.get(name, {})
        rows.append(
            TopicStatus(
                name,
                kind,
                needed,
                exists=True,
                partition_count=len(layout.partitions),
                replication_factor=layout.replication_factor,
                leaderless=layout.leaderless,
                under_replicated=layout.under_replicated,
                cleanup_policy=configs.get("cleanup.policy"),
                retention_ms=None if (retention := configs.get("retention.ms")) is None else int(retention),
                timestamp_type=configs.get("message.timestamp.type"),
                differences=[
                    *_differences(specs.get(name) or requests_spec(settings, name), len(layout.partitions), configs),
                    *_deleted(kind, cluster.first.get((name, 0), 0)),
                    *(
                        ConfigDifference(weakness.name, weakness.wanted, weakness.found)
                        for weakness in weaknesses(_described(cluster, name), cluster.layout.size)
                    ),
                ],
            )
        )
    return rows


def topic_problems(settings: Settings, cluster: ClusterFacts, rows: list[TopicStatus]) -> Iterator[str]:
    """Yield the problems of topics, each with advice."""
    for row in rows:
        if row.exists is False and row.needed:
            how = "enforce and audit create it when they start" if settings.topics.create else "create it"
            yield f"topic {row.name} is missing, or this principal may not describe it: {how}"
        if row.leaderless:
            which = f"{row.leaderless} of {row.partition_count} partitions"
            yield f"topic {row.name}: {which} have no leader: start the brokers"
        if row.under_replicated:
            which = f"{row.under_replicated} of {row.partition_count} partitions"
            yield f"topic {row.name}: {which} are under-replicated: check the brokers"
    described = {name: _described(cluster, name) for name in cluster.configs}
    yield from faults(described, settings)
    yield from cleanup_warnings(described, settings)
    needed = {row.name for row in rows if row.needed}
    for partition, offset in sorted(cluster.stable.items()):
        if partition[0] in needed and offset < cluster.overdue.get(partition, offset):
            transaction = end_of_transaction(settings.kafka.bootstrap_servers, partition, offset)
            yield f"records have been unreadable for more than a minute: {transaction}"


def topic_id_problems(settings: Settings, cluster: ClusterFacts, deployment: Deployment) -> Iterator[str]:
    """Yield the problems of topics that were deleted, or whose id differs from that in the storage root."""
    root = settings.storage.root
    for name, topic_id in sorted(deployment.topics.items()):
        if cluster.ids.get(name, topic_id) != topic_id:
            yield (
                f"topic {name} is not the topic that {root} belongs to, so no job can start: "
                "set another storage.root, or move its checkpoints and tables away"
            )
        is_gone = name not in cluster.layout.topics and name not in deployment.retired
        if is_gone and user_of(name, settings.topics.requests):
            yield (
                f"topic {name} of a user was deleted; if this is intended, start enforce once with the user in "
                "topics.retired_users"
            )


def _described(cluster: ClusterFacts, name: str) -> Topic:
    """Return a topic of the cluster, with the configs that could be read."""
    return dataclasses.replace(cluster.layout.topics[name], configs=cluster.configs.get(name, {}))


def _differences(spec: TopicSpec, partitions: int, configs: Mapping[str, str]) -> list[ConfigDifference]:
    wanted = {"partitions": str(spec.partitions), **spec.configs}
    actual = {"partitions": str(partitions), **configs}
    return [
        ConfigDifference(name, value, actual[name])
        for name, value in wanted.items()
        if name in actual and actual[name] != value
    ]


def _deleted(kind: TopicKind, first: int) -> list[ConfigDifference]:
    """Return that the quota log lacks its first records, and quotas with them: compaction retains the first offset."""
    return [ConfigDifference("first offset", "0", str(first))] if kind == "quotas" and first else []


def query_rows(
    settings: Settings,
    at: int,
    cluster: ClusterFacts | None,
    storage: StorageFacts | None,
    endpoints: Sequence[EndpointStatus],
) -> list[QueryStatus]:
    """Return the queries, and the applier if one has run; fields that cannot be read are null."""
    served = {job: endpoint.address for endpoint in endpoints for job in endpoint.jobs or ()}
    rows = []
    for name in _QUERIES:
        facts = storage.checkpoints[name] if storage else None
        rows.append(_query_row(settings, name, cluster, facts, served.get(name)))
    if APPLIER in served or (cluster is not None and cluster.applied is not None):
        rows.append(_applier_row(settings, at, cluster, served.get(APPLIER)))
    return rows


def query_problems(settings: Settings, rows: Sequence[QueryStatus], storage: StorageFacts) -> Iterator[str]:
    """Yield the reasons why queries cannot continue, and the records that they have missed, each with advice."""
    for row in rows:
        yield from _checkpoint_problems(settings, row, storage)
        lost = sum(partition.lost for partition in row.partitions or ())
        if lost:
            were, them = ("was removed from its", "it") if lost == 1 else ("were removed from their", "them")
            yield (
                f"{row.name}: {plural(lost, 'record')} {were} topic before it read {them}: see "
                "spark.fail_on_data_loss in docs/reference/errors.md"
            )
        readable = (row.overdue or 0) - sum(partition.held for partition in row.partitions or ())
        if readable:
            unit = "decision" if row.name == APPLIER else "record"
            waiting = f"{plural(readable, unit)} {'has' if readable == 1 else 'have'}"
            yield (f"{row.name}: {waiting} waited for more than a minute: check that it is running and fast enough")


def _checkpoint_problems(settings: Settings, row: QueryStatus, storage: StorageFacts) -> Iterator[str]:
    facts = storage.checkpoints.get(row.name)
    if facts is None:
        return
    noted = storage.deployment.checkpoints.get(row.name)
    if facts.damage is not None:
        yield f"{row.name}: the checkpoint {facts.folder} is incomplete: {facts.damage}; its start prints what to do"
    elif row.name == ENFORCE and not facts.exists and noted is not None:
        yield (
            f"enforce: its buckets have version {noted}, but the checkpoint {facts.folder} of this program "
            f"(version {facts.version}) is not in {settings.storage.root}: its start prints what to do"
        )
    elif row.name == ENFORCE and not facts.exists:
        yield f"enforce has not run on {settings.storage.root}: start it, or check storage.root"


def _query_row(
    settings: Settings,
    name: Literal["enforce", "audit"],
    cluster: ClusterFacts | None,
    facts: CheckpointFacts | None,
    endpoint: str | None,
) -> QueryStatus:
    holder = facts.holder if facts else None
    is_running = None if holder is None else not holder.ended and holder.runs
    row = QueryStatus(
        name,
        _topics_of(settings, name, cluster),
        facts.folder if facts else checkpoint_folder(name, CHECKPOINT_VERSIONS[name]),
        exists=facts.exists if facts else None,
        running=True if endpoint else is_running,
        running_by=f"metrics at {endpoint}" if endpoint else None if is_running is None else "its lease",
        active=None if holder is None or is_running is False else f"process {holder.program.pid} on {holder.host}",
        active_since=None if holder is None or is_running is False else holder.started_at,
        last_batch=facts.last_batch if facts else None,
        open_batch=facts.open_batch if facts else None,
    )
    return _with_lag(row, cluster, facts.positions or {}) if facts and (facts.exists or name == ENFORCE) else row


def _applier_row(settings: Settings, at: int, cluster: ClusterFacts | None, endpoint: str | None) -> QueryStatus:
    topics = settings.topics
    applied = cluster.applied if cluster else None
    row = QueryStatus(
        "applier",
        [topics.decisions],
        f"{topics.positions}, {settings.applier.group}",
        exists=None if cluster is None else applied is not None,
        running=True if endpoint else None if applied is None else at - applied.stored_at <= _APPLIER_SILENT_MS,
        running_by=f"metrics at {endpoint}" if endpoint else "the time of its position" if applied else None,
        last_batch=BatchStatus(0, applied.stored_at) if applied else None,
    )
    if applied is None:
        return row
    return _with_lag(
        row, cluster, {(topics.decisions, number): applied_to.offset for number, applied_to in applied.offsets.items()}
    )


def _with_lag(row: QueryStatus, cluster: ClusterFacts | None, positions: Mapping[Partition, int]) -> QueryStatus:
    """Add the lag of the partitions; one without a position is read from its first record."""
    if cluster is None or not cluster.end:
        return row
    lags = [
        _partition_lag(cluster, partition, positions.get(partition))
        for partition in sorted(cluster.end)
        if partition[0] in row.reads
    ]
    lag, overdue = sum(partition.lag for partition in lags), sum(partition.overdue for partition in lags)
    return replace(row, lag=lag, overdue=overdue, partitions=lags)


def _partition_lag(cluster: ClusterFacts, partition: Partition, position: int | None) -> PartitionLag:
    first, end = cluster.first[partition], cluster.end[partition]
    start = first if position is None else max(first, position)
    overdue = min(end, cluster.overdue.get(partition, start))
    return PartitionLag(
        *partition,
        position,
        first,
        end,
        lag=max(0, end - start),
        overdue=max(0, overdue - start),
        lost=0 if position is None else max(0, first - position),
        held=max(0, overdue - max(start, cluster.stable.get(partition, end))),
    )


def _topics_of(settings: Settings, name: str, cluster: ClusterFacts | None) -> list[str]:
    topics = settings.topics
    if name == AUDIT:
        return [topics.decisions, topics.dead_letters, topics.quotas]
    if topics.user_topic_prefix is None:
        return [topics.requests]
    existing = cluster.layout.topics if cluster else ()
    return [name for name in deployment_topics(settings, existing) if user_of(name, topics.requests)]
