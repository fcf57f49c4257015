"""What topics need: the replication of new ones, and the checks of those that exist."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from quota.kafka.topics.specs import QUOTAS_RETAINED_MS, TopicSpec, max_answer_bytes, user_topic_names
from quota.kafka.topics.topic_admin import DescribedTopic
from quota.settings import Settings

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
        two = "records are on one broker only, or cannot be written, when a broker fails"
        risk = "records are lost when a broker is lost" if replicas == 1 else two
        yield Weakness("replication.factor", str(_REPLICAS), str(replicas), risk)
    in_sync = configs.get("min.insync.replicas", "")
    if replicas >= _REPLICAS and in_sync == "1":
        risk = "acknowledged records may be on one broker only when a broker fails"
        yield Weakness("min.insync.replicas", str(_IN_SYNC), in_sync, risk)
    elif min(_REPLICAS, brokers) <= replicas <= int(in_sync or 0) and replicas > 1:
        yield Weakness(
            "min.insync.replicas", str(replicas - 1), in_sync, "no record can be written when a broker fails"
        )
    unclean = configs.get("unclean.leader.election.enable", "")
    if replicas > 1 and unclean == "true":
        yield Weakness("unclean.leader.election.enable", "false", unclean, "records may be lost when a broker fails")


def durability_warnings(topics: Mapping[str, DescribedTopic], brokers: int) -> Iterator[str]:
    """Yield a line for each way in which topics are less safe than the cluster allows, with what to do."""
    by_weakness: dict[Weakness, list[str]] = {}
    for name, topic in sorted(topics.items()):
        for weakness in weaknesses(topic, brokers):
            by_weakness.setdefault(weakness, []).append(name)
    for weakness, names in by_weakness.items():
        name, wanted = weakness.name, weakness.wanted
        yield f"{_named(names)}: {name}={weakness.found}, so that {weakness.risk}; set {name}={wanted}"


def _named(names: list[str]) -> str:
    shown, others = names[:_SHOWN_NAMES], len(names) - _SHOWN_NAMES
    more = f" and {others} more" if others > 0 else ""
    return f"{'topic' if len(names) == 1 else 'topics'} {', '.join(shown)}{more}"


_log = logging.getLogger(__name__)


def problems(topics: Mapping[str, DescribedTopic], settings: Settings) -> Iterator[str]:
    """Yield the problems of topics, each with its solution. A mere risk is logged as a warning."""
    for risk in _risks(topics, settings):
        _log.warning("%s", risk)
    yield from faults(topics, settings)


def faults(topics: Mapping[str, DescribedTopic], settings: Settings) -> Iterator[str]:
    """Yield the problems of topics with which no job starts, each with its solution."""
    names, needed = settings.topics, max_answer_bytes(settings)
    stamped = sorted({names.requests, names.quotas} & topics.keys()) + user_topic_names(topics, settings)
    for name in stamped:
        if topics[name].configs["message.timestamp.type"] != "LogAppendTime":
            yield (
                f"topic {name} is stamped by producers (message.timestamp.type=CreateTime), so a client could gain "
                "tokens by its timestamps; set message.timestamp.type=LogAppendTime on the topic"
            )
    for name in {names.decisions, names.dead_letters, names.results} & topics.keys():
        max_bytes = topics[name].configs["max.message.bytes"]
        if int(max_bytes) < needed:
            yield (
                f"topic {name} accepts records of at most {max_bytes} bytes, but an answer may need "
                f"{needed}; set max.message.bytes={needed} on the topic, or lower limits.max_request_bytes"
            )
    name = names.quotas
    if name in topics and topics[name].partitions != 1:
        yield (
            f"topic {name} has {topics[name].partitions} partitions, so its changes have no total order; "
            "create it again with one"
        )


def _risks(topics: Mapping[str, DescribedTopic], settings: Settings) -> Iterator[str]:
    name = settings.topics.quotas
    if name not in topics:
        return
    configs = topics[name].configs
    lag_ms = configs["min.compaction.lag.ms"]
    if "compact" not in configs["cleanup.policy"]:
        yield f"topic {name} is not compacted: quotas are forgotten when its retention ends"
    elif int(lag_ms) < QUOTAS_RETAINED_MS:
        yield (
            f"topic {name} may be compacted after {lag_ms} ms: older requests may be decided with later quotas; "
            f"set min.compaction.lag.ms={QUOTAS_RETAINED_MS} on the topic"
        )
