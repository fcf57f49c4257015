"""Compares the topics of a deployment with those that the jobs need and create."""

from collections.abc import Iterator, Mapping
from typing import get_args

from jobs.status.cluster_facts import ClusterFacts, deployment_topics
from jobs.storage.deployment import Deployment
from quota.admission.identity import user_of
from quota.kafka.topics.checks import faults, weaknesses
from quota.kafka.topics.specs import TopicSpec, requests_spec, topic_specs
from quota.kafka.topics.topic_admin import DescribedTopic
from quota.settings import Settings
from schemas.documents.status import ConfigDifference, TopicKind, TopicStatus

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
    yield from faults({name: _described(cluster, name) for name in cluster.configs}, settings)


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


def _described(cluster: ClusterFacts, name: str) -> DescribedTopic:
    """Return a topic of the cluster, with the configs that could be read."""
    layout, configs = cluster.layout.topics[name], cluster.configs.get(name, {})
    return DescribedTopic(
        cluster.ids.get(name, ""),
        len(layout.partitions),
        {config: value or "" for config, value in configs.items()},
        layout.replication_factor,
    )


def _differences(spec: TopicSpec, partitions: int, configs: Mapping[str, str | None]) -> list[ConfigDifference]:
    """Return the differences from the spec, except for configs that could not be read."""
    wanted = {"partitions": str(spec.partitions), **spec.configs}
    actual = {"partitions": str(partitions), **{name: value or "" for name, value in configs.items()}}
    return [
        ConfigDifference(name, value, actual[name])
        for name, value in wanted.items()
        if name in actual and actual[name] != value
    ]
