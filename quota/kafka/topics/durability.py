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
    risk: str


def replicated(spec: TopicSpec, setting: int, brokers: int) -> TopicSpec:
    """Return the spec of a new topic, with its replication; `setting` is `topics.replication_factor`."""
    factor = _REPLICAS if setting < 1 and brokers >= _REPLICAS else setting
    own = {"min.insync.replicas": str(_IN_SYNC)} if factor >= _REPLICAS else {}
    return replace(spec, configs={**spec.configs, **own}, replication_factor=factor)


def weaknesses(topic: DescribedTopic, brokers: int) -> Iterator[Weakness]:
    """Yield what makes a topic less safe than a cluster of `brokers` brokers allows."""
    replicas, configs = topic.replication_factor, topic.configs
    if replicas < _REPLICAS <= brokers:
        two = "when a broker fails, records are on one broker only or cannot be written"
        risk = "records are lost if a broker is lost" if replicas == 1 else two
        yield Weakness("replication.factor", str(_REPLICAS), str(replicas), risk)
    in_sync = configs.get("min.insync.replicas", "")
    if replicas >= _REPLICAS and in_sync == "1":
        yield Weakness("min.insync.replicas", str(_IN_SYNC), in_sync, "acknowledged records may be on one broker only")
    elif min(_REPLICAS, brokers) <= replicas <= int(in_sync or 0) and replicas > 1:
        yield Weakness("min.insync.replicas", str(replicas - 1), in_sync, "no record can be written")
    unclean = configs.get("unclean.leader.election.enable", "")
    if replicas > 1 and unclean == "true":
        yield Weakness("unclean.leader.election.enable", "false", unclean, "records may be lost")


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
        replicas = "a single replica" if weakness.found == "1" else "two replicas"
        return (
            f"{replicas} on a cluster of {brokers} brokers, so that {weakness.risk}; raise the replication factor to "
            f"{weakness.wanted} (kafka-reassign-partitions.sh)"
        )
    return (
        f"{weakness.name}={weakness.found}, so that {weakness.risk} when a broker fails; set "
        f"{weakness.name}={weakness.wanted} on each (kafka-configs.sh)"
    )


def _named(names: list[str]) -> str:
    shown, others = names[:_SHOWN_NAMES], len(names) - _SHOWN_NAMES
    more = f" and {others} more" if others > 0 else ""
    return f"{'topic' if len(names) == 1 else 'topics'} {', '.join(shown)}{more}"
