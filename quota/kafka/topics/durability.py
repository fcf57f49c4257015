"""The replication of topics: what new ones get, and what existing ones lack."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from quota.kafka.topics.specs import TopicSpec
from quota.kafka.topics.topic_admin import DescribedTopic

_REPLICAS = 3
_IN_SYNC = 2
"""With three replicas, an acknowledged record is on two brokers, and one broker may be down."""

_SHOWN_NAMES = 5
"""Users may have thousands of topics."""


@dataclass(frozen=True, slots=True)
class Weakness:
    """A property of a topic that is less safe than the cluster allows; the names are those of configs."""

    name: str
    wanted: str
    found: str


def replicated(spec: TopicSpec, setting: int, brokers: int) -> TopicSpec:
    """Return the spec of a new topic, with its replication.

    Args:
        spec: the topic.
        setting: `topics.replication_factor`.
        brokers: the number of brokers of the cluster.
    """
    factor = _REPLICAS if setting < 1 and brokers >= _REPLICAS else setting
    own = {"min.insync.replicas": str(_IN_SYNC)} if factor >= _REPLICAS else {}
    return replace(spec, configs={**spec.configs, **own}, replication_factor=factor)


def weaknesses(topic: DescribedTopic, brokers: int) -> Iterator[Weakness]:
    """Yield what makes a topic less safe than a cluster with so many brokers allows."""
    replicas, configs = topic.replication_factor, topic.configs
    if brokers >= _REPLICAS and replicas == 1:
        yield Weakness("replication.factor", str(_REPLICAS), str(replicas))
    in_sync = configs.get("min.insync.replicas", "")
    if replicas >= _REPLICAS and in_sync == "1":
        yield Weakness("min.insync.replicas", str(_IN_SYNC), in_sync)
    unclean = configs.get("unclean.leader.election.enable", "")
    if replicas > 1 and unclean == "true":
        yield Weakness("unclean.leader.election.enable", "false", unclean)


def durability_warnings(topics: Mapping[str, DescribedTopic], brokers: int) -> Iterator[str]:
    """Yield a line for each way in which topics are less safe than the cluster allows, with what to do."""
    found: dict[Weakness, list[str]] = {}
    for name, topic in sorted(topics.items()):
        for weakness in weaknesses(topic, brokers):
            found.setdefault(weakness, []).append(name)
    for weakness, names in found.items():
        yield f"{_named(names)}: {_advice(weakness, brokers)}"


def _advice(weakness: Weakness, brokers: int) -> str:
    if weakness.name == "replication.factor":
        return (
            f"a single replica on a cluster of {brokers} brokers, so that records are lost with a broker; raise the "
            f"replication factor to {weakness.wanted} (kafka-reassign-partitions.sh)"
        )
    cause = "acknowledged records may be on one broker only" if weakness.wanted != "false" else "records may be lost"
    return (
        f"{weakness.name}={weakness.found}, so that {cause} when a broker fails; set "
        f"{weakness.name}={weakness.wanted} on each (kafka-configs.sh)"
    )


def _named(names: list[str]) -> str:
    shown, others = names[:_SHOWN_NAMES], len(names) - _SHOWN_NAMES
    more = f" and {others} more" if others > 0 else ""
    return f"{'topic' if len(names) == 1 else 'topics'} {', '.join(shown)}{more}"
