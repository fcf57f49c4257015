"""The preparation of a deployment's topics before a job starts: missing ones are created, and all are checked."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quota.admission.identity import request_topic
from quota.errors import ClusterError
from quota.kafka.topics.specs import (
    MAX_ANSWER_BYTES,
    QUOTAS_RETAINED_MS,
    TopicSpec,
    requests_spec,
    topic_specs,
    user_topic_names,
)
from quota.kafka.topics.topic_admin import Topic, TopicAdmin
from quota.settings import Settings

_log = logging.getLogger(__name__)

_REPLICAS = 3
_IN_SYNC = 2
"""With three replicas, an acknowledged record is on two brokers, and one broker may be down."""

_SHOWN_NAMES = 5
"""Users may have thousands of topics."""


def prepare_topics(
    settings: Settings, needed: Collection[str] = (), admin: TopicAdmin | None = None
) -> dict[str, Topic]:
    """Create missing topics if the settings allow it, check existing ones, and return all of them by name.

    If each user has a request topic, the existing ones are used instead of the shared request topic. `needed` are the
    names of the topics to prepare, by default all of the deployment; `admin` is the client, by default a new one.
    """
    admin = admin or TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
    cluster = admin.layout()
    specs = [spec for spec in topic_specs(settings) if not needed or spec.name in needed]
    missing = [spec for spec in specs if spec.name not in cluster.topics]
    if missing and not settings.topics.create:
        raise ClusterError(
            f"missing topics: {', '.join(spec.name for spec in missing)}; create them, set topics.create=true, "
            "or let this principal describe them"
        )
    admin.create([replicated(spec, cluster.size) for spec in missing])
    if missing:
        _log.info("created topics %s", ", ".join(spec.name for spec in missing))
    names = [spec.name for spec in specs]
    if not needed or settings.topics.requests in needed:
        names += user_topic_names(cluster.topics, settings)
    topics = admin.describe(names)
    for fault in faults(topics, settings):
        raise ClusterError(fault)
    warnings = (
        *cleanup_warnings(topics, settings),
        *compaction_warnings(topics, settings),
        *durability_warnings(topics, cluster.size),
    )
    for warning in warnings:
        _log.warning("%s", warning)
    return topics


class UserTopics:
    """The request topics of single users on a cluster (`topics.identity=topic`)."""

    def __init__(self, settings: Settings, admin: TopicAdmin | None = None) -> None:
        """Use a client, by default a new one, which connects when it is used."""
        self._settings = settings
        self._admin = admin or TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
        self._logged: set[str] = set()

    def prepare(self, users: Sequence[str]) -> dict[str, str]:
        """Create the topics of users, set the configs of existing ones, and return the topic of each user."""
        topics = {user: request_topic(user, self._settings.topics) for user in users}
        specs = [requests_spec(self._settings, topic) for topic in topics.values()]
        cluster = self._admin.layout()
        missing = [spec for spec in specs if spec.name not in cluster.topics]
        self._admin.create([replicated(spec, cluster.size) for spec in missing])
        self._admin.configure([spec for spec in specs if spec.name in cluster.topics])
        return topics

    def check(self) -> dict[str, str]:
        """Check the existing topics and return their ids, by name.

        A fault is logged once; the requests in that topic become dead letters.
        """
        topics = self._admin.describe(user_topic_names(self._admin.layout().topics, self._settings))
        present = set(faults(topics, self._settings))
        for fault in present - self._logged:
            _log.warning("%s", fault)
        self._logged = present
        return {name: topic.topic_id for name, topic in topics.items()}


def replicated(spec: TopicSpec, brokers: int) -> TopicSpec:
    """Return the spec of a new topic of a cluster with so many brokers: with three replicas if they are enough."""
    if brokers < _REPLICAS:
        return spec
    own = {"min.insync.replicas": str(_IN_SYNC)}
    return replace(spec, configs={**spec.configs, **own}, replication_factor=_REPLICAS)


def faults(topics: Mapping[str, Topic], settings: Settings) -> Iterator[str]:
    """Yield the faults of topics with which no job starts, each with its solution."""
    names, needed = settings.topics, MAX_ANSWER_BYTES
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
                f"{needed}; set max.message.bytes={needed} on the topic"
            )
    name = names.quotas
    if name in topics and len(topics[name].partitions) != 1:
        yield (
            f"topic {name} has {len(topics[name].partitions)} partitions, so its changes have no total order; "
            "create it again with one"
        )


@dataclass(frozen=True, slots=True)
class Weakness:
    """A property of a topic that is less safe than the cluster allows; the names are those of configs."""

    name: str
    wanted: str
    found: str
    risk: str


def weaknesses(topic: Topic, brokers: int) -> Iterator[Weakness]:
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


def durability_warnings(topics: Mapping[str, Topic], brokers: int) -> Iterator[str]:
    """Yield a line for each way in which topics are less safe than the cluster allows, with what to do."""
    by_weakness: dict[Weakness, list[str]] = {}
    for name, topic in sorted(topics.items()):
        for weakness in weaknesses(topic, brokers):
            by_weakness.setdefault(weakness, []).append(name)
    for weakness, names in by_weakness.items():
        name, wanted = weakness.name, weakness.wanted
        yield f"{_named(names)}: {name}={weakness.found}, so that {weakness.risk}; set {name}={wanted}"


def cleanup_warnings(topics: Mapping[str, Topic], settings: Settings) -> Iterator[str]:
    """Yield which topics lose records by their `cleanup.policy` that are still needed, with what to do."""
    names = settings.topics
    state = {names.quotas: "quotas", names.positions: "positions of appliers and observers"}
    for name, topic in sorted(topics.items()):
        policy = topic.configs.get("cleanup.policy", "")
        limits = {topic.configs.get(limit, "") for limit in ("retention.ms", "retention.bytes")}
        wanted, lost = "delete", ""
        if name in state and "delete" in policy and limits != {"-1"}:
            wanted, lost = "compact", f"{state[name]} are forgotten when its retention ends"
        elif name not in state and "compact" in policy:
            lost = "only the last record of each key stays, and earlier ones may never be read"
        if lost:
            yield f"topic {name}: cleanup.policy={policy}, so that {lost}; set cleanup.policy={wanted} on the topic"


def compaction_warnings(topics: Mapping[str, Topic], settings: Settings) -> Iterator[str]:
    """Yield why changes of the quota topic may be compacted too early, with what to do."""
    name = settings.topics.quotas
    if name in topics and int(lag_ms := topics[name].configs["min.compaction.lag.ms"]) < QUOTAS_RETAINED_MS:
        yield (
            f"topic {name} may be compacted after {lag_ms} ms: older requests may be decided with later quotas; "
            f"set min.compaction.lag.ms={QUOTAS_RETAINED_MS} on the topic"
        )


def _named(names: list[str]) -> str:
    shown, others = names[:_SHOWN_NAMES], len(names) - _SHOWN_NAMES
    more = f" and {others} more" if others > 0 else ""
    return f"{'topic' if len(names) == 1 else 'topics'} {', '.join(shown)}{more}"
