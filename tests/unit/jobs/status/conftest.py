"""Facts about a deployment as its parts would report them."""

import pytest

from jobs.status.assembly import Facts
from jobs.status.facts import CheckpointFacts, ClusterFacts, StorageFacts
from jobs.storage.deployment import Deployment
from quota.kafka.topics.topic_admin import ClusterLayout
from quota.settings import load_settings
from schemas.documents.status import BatchStatus, TableStatus
from tests.support.described_topics import described_topic

NOW = 1_795_266_000_000

CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "8388608",
    "min.compaction.lag.ms": "604800000",
}
COMPACTED = {name: {"cleanup.policy": "compact"} for name in ("mutation-quotas", "mutation-positions")}
PARTITIONS = {
    "mutation-requests": 2,
    "mutation-decisions": 2,
    "mutation-dead-letters": 2,
    "mutation-quotas": 1,
    "mutation-results": 2,
    "mutation-positions": 1,
}


@pytest.fixture
def settings():
    return load_settings(["storage.root=/srv/quota"], environment={}, with_default_file=False)


def topic(name, partitions, *, leader=1, in_sync=(1,)):
    return described_topic(name, *[(leader, (1,), in_sync)] * partitions)


def cluster(topics=None, configs=None, **facts):
    """A cluster whose topics are as the jobs create them, except the given ones; None removes a topic."""
    layouts = {name: topic(name, count) for name, count in PARTITIONS.items()} | (topics or {})
    layouts = {name: layout for name, layout in layouts.items() if layout is not None}
    topic_configs = {name: {**CONFIGS, **COMPACTED.get(name, {}), **(configs or {}).get(name, {})} for name in layouts}
    ends = {(name, number): 0 for name, layout in layouts.items() for number in range(len(layout.partitions))}
    given = {"ids": {name: f"id of {name}" for name in layouts}, "first": ends, "end": ends, "overdue": ends} | facts
    return ClusterFacts(ClusterLayout("C", (1,), layouts), configs=topic_configs, **given)


def checkpoint(query, version, **facts):
    given = {"exists": True, "last_batch": BatchStatus(7, NOW - 5000), "positions": {}} | facts
    return CheckpointFacts(f"checkpoints/{query}/v{version}", version, **given)


def storage(deployment=None, tables=None, **checkpoints):
    """A storage root of jobs that have run, except the given checkpoints and tables."""
    stored = {
        "enforce": checkpoint("enforce", 3),
        "audit": checkpoint("audit", 1),
    } | checkpoints
    written = {
        name: TableStatus(name, exists=True, version=4) for name in ("decisions", "dead_letters", "quota_changes")
    }
    return StorageFacts(deployment or Deployment(checkpoints={"enforce": 3}), stored, written | (tables or {}))


def facts(cluster_facts=None, storage_facts=None, endpoints=()):
    return Facts(NOW, cluster_facts or cluster(), None, storage_facts or storage(), None, endpoints)
