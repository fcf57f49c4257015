"""The topics of a deployment: what they have to be like, creating missing ones, checking those that are there."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType, TopicDescription

from quota.admission.identity import user_of
from quota.errors import ClusterError
from quota.kafka.clients import client_config, reason, unreachable
from quota.kafka.topics.record_sizes import ENVELOPE, GROWTH
from quota.settings.model import Settings

_log = logging.getLogger(__name__)

T = TypeVar("T")

QUOTAS_KEPT_MS = 7 * 24 * 3600 * 1000
"""How long the quota topic keeps every change, before compaction leaves the last of each entity."""

RESULTS_KEPT_MS = 7 * 24 * 3600 * 1000
"""How long the results topic keeps what an applier remembers by: a decision that was written twice is carried out once
however long the enforcing query was down in between, up to that."""

PLACES_SEGMENT_BYTES = 16 * 1024 * 1024
"""Of the places topic, which is worth its last records alone."""

MAX_QUOTA_BYTES = 8 * 1024 * 1024
"""The largest record of the quota topic: the metadata of a cluster with some hundred thousand partitions."""

_LOOK_SECONDS = 0.05
_STAMPED_BY_BROKER = {"message.timestamp.type": "LogAppendTime"}
_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_BROKER_DEFAULT_MAX_BYTES = 1_048_588


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it is created where it is missing."""

    name: str
    partitions: int
    config: Mapping[str, str]


def topic_specs(settings: Settings) -> tuple[TopicSpec, ...]:
    """The topics of a deployment with the settings that they need."""
    topics = settings.topics
    answers = {**_STAMPED_BY_BROKER, "max.message.bytes": str(max_answer_bytes(settings))}
    return (
        *([] if topics.by_users else [requests_spec(settings, topics.requests)]),
        TopicSpec(topics.decisions, topics.partitions, answers),
        TopicSpec(topics.dead_letters, topics.partitions, answers),
        # One partition gives the changes one order; a week's changes are kept whole, so that
        # a job that was down for some days still judges its backlog by the quotas of its time.
        TopicSpec(
            topics.quotas,
            1,
            {
                **_STAMPED_BY_BROKER,
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": str(QUOTAS_KEPT_MS),
                "max.message.bytes": str(MAX_QUOTA_BYTES),
            },
        ),
        TopicSpec(topics.results, topics.partitions, {**answers, "retention.ms": str(RESULTS_KEPT_MS)}),
        TopicSpec(topics.places, 1, {"cleanup.policy": "compact", "segment.bytes": str(PLACES_SEGMENT_BYTES)}),
    )


def requests_spec(settings: Settings, name: str) -> TopicSpec:
    """A topic of requests: that of all, or a user's own."""
    largest = {"max.message.bytes": str(max_record_bytes(settings))}
    return TopicSpec(name, settings.topics.partitions, {**_STAMPED_BY_BROKER, **largest})


def max_record_bytes(settings: Settings) -> int:
    """How large a record a topic of requests takes: also one over the limit, which becomes a dead letter."""
    return max(settings.limits.max_request_bytes + ENVELOPE, _BROKER_DEFAULT_MAX_BYTES)


def max_answer_bytes(settings: Settings) -> int:
    """How large a decision or a dead letter can become."""
    return GROWTH * settings.limits.max_request_bytes + ENVELOPE


def prepare_topics(settings: Settings, needed: Collection[str] = ()) -> dict[str, str]:
    """Create what is missing, if the settings say so, and check what is there.

    Where users have topics of their own for requests, those that are there stand for the topic of requests.

    Args:
        settings: the settings.
        needed: the names of the topics that are needed; all if none is given.

    Returns:
        The id that the cluster gave each topic: one that is made anew has another.

    Raises:
        ClusterError: the cluster cannot be reached, or a topic is not as the jobs need it; says what to do.
    """
    admin = admin_of(settings)
    existing = existing_topics(admin, settings)
    specs = [spec for spec in topic_specs(settings) if not needed or spec.name in needed]
    missing = [spec for spec in specs if spec.name not in existing]
    if missing and not settings.topics.create:
        raise ClusterError(
            f"missing topics: {', '.join(spec.name for spec in missing)}; create them, set topics.create=true, "
            "or let this principal describe them"
        )
    create_topics(admin, missing, settings)
    names = [spec.name for spec in specs]
    if not needed or settings.topics.requests in needed:
        names += user_topics(existing, settings)
    described, configs = describe(admin, names, settings.kafka.timeout_seconds)
    for problem in problems(described, configs, settings):
        raise ClusterError(problem)
    return ids_of(described)


def admin_of(settings: Settings) -> AdminClient:
    """An admin client of the cluster that decides.

    Raises:
        ClusterError: the settings of TLS are not usable.
    """
    try:
        return AdminClient(client_config(settings.kafka.connection))
    except KafkaException as error:
        raise _unreachable(settings, error) from None


def existing_topics(admin: AdminClient, settings: Settings) -> set[str]:
    """The names of all topics.

    Raises:
        ClusterError: the cluster does not answer.
    """
    try:
        return set(admin.list_topics(timeout=settings.kafka.timeout_seconds).topics)
    except KafkaException as error:
        raise _unreachable(settings, error) from None


def _unreachable(settings: Settings, error: KafkaException) -> ClusterError:
    why = unreachable(client_config(settings.kafka.connection), error)
    advice = (
        "; start it (mutation-quota broker) or set kafka.bootstrap_servers, "
        "and kafka.security_protocol where it wants TLS or SASL"
    )
    known = settings.kafka.security_protocol != "PLAINTEXT"  # then the reason says what to do
    return ClusterError(f"cannot reach Kafka at {settings.kafka.bootstrap_servers}: {why}{'' if known else advice}")


def user_topics(existing: Collection[str], settings: Settings) -> list[str]:
    """Those topics by which users make requests, each its own."""
    by_users = settings.topics.by_users
    return [] if by_users is None else sorted(name for name in existing if user_of(name, by_users) is not None)


def ids_of(described: Mapping[str, TopicDescription]) -> dict[str, str]:
    """The id that the cluster gave each topic."""
    return {name: str(topic.topic_id) for name, topic in described.items()}


def create_topics(admin: AdminClient, specs: list[TopicSpec], settings: Settings) -> None:
    """Create topics; one that another program creates at the same time is as good.

    Raises:
        ClusterError: the cluster does not.
    """
    if not specs:
        return
    futures = admin.create_topics(
        [
            NewTopic(spec.name, spec.partitions, settings.topics.replication_factor, config=dict(spec.config))
            for spec in specs
        ],
        operation_timeout=settings.kafka.timeout_seconds,
    )
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue  # another job was faster
            hidden = error.args[0].code() in _NOT_ALLOWED
            hint = "; if it exists, this principal may not even describe it" if hidden else ""
            raise ClusterError(f"cannot create topic {name}: {reason(error).removesuffix('.')}{hint}") from None
    _log.info("created topics %s", ", ".join(futures))


def describe(
    admin: AdminClient, names: list[str], timeout: float
) -> tuple[dict[str, TopicDescription], dict[str, dict[str, str]]]:
    """What topics are like, and their configs.

    Raises:
        ClusterError: the cluster does not say.
    """
    if not names:
        return {}, {}
    return _once_known(_describe_topics, admin, names, timeout), _once_known(_describe_configs, admin, names, timeout)


def _describe_topics(admin: AdminClient, names: list[str], timeout: float) -> dict[str, TopicDescription]:
    futures = admin.describe_topics(TopicCollection(names), request_timeout=timeout)
    return {name: future.result() for name, future in futures.items()}


def _describe_configs(admin: AdminClient, names: list[str], timeout: float) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=timeout)
    return {
        resource.name: {name: entry.value for name, entry in future.result().items()}
        for resource, future in futures.items()
    }


def _once_known(
    describe: Callable[[AdminClient, list[str], float], T], admin: AdminClient, names: list[str], timeout: float
) -> T:
    """Describe topics; one that was made just now takes a moment until the broker that is asked knows it."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return describe(admin, names, timeout)
        except KafkaException as error:
            unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unknown or time.monotonic() > deadline:
                raise ClusterError(f"cannot describe the topics {', '.join(names)}: {reason(error)}") from None
        time.sleep(_LOOK_SECONDS)


def problems(
    described: Mapping[str, TopicDescription], configs: Mapping[str, Mapping[str, str]], settings: Settings
) -> Iterator[str]:
    """What is wrong with topics, and what to do."""
    topics = settings.topics
    for name in sorted({topics.requests, topics.quotas} & configs.keys()) + user_topics(configs, settings):
        if configs[name]["message.timestamp.type"] != "LogAppendTime" and not topics.trust_producer_timestamps:
            yield (
                f"topic {name} is stamped by producers (message.timestamp.type=CreateTime), so that a client could "
                "write itself tokens; set message.timestamp.type=LogAppendTime on the topic, "
                "or topics.trust_producer_timestamps=true"
            )
    needed = max_answer_bytes(settings)
    for name in {topics.decisions, topics.dead_letters, topics.results} & configs.keys():
        if int(configs[name]["max.message.bytes"]) < needed:
            yield (
                f"topic {name} takes {configs[name]['max.message.bytes']} bytes a record, but an answer may need "
                f"{needed}; set max.message.bytes={needed} on the topic, or lower limits.max_request_bytes"
            )
    if topics.quotas not in configs:
        return
    if len(described[topics.quotas].partitions) != 1:
        yield (
            f"topic {topics.quotas} has {len(described[topics.quotas].partitions)} partitions, so that its changes "
            "have no order; make it anew with one"
        )
    if "compact" not in configs[topics.quotas]["cleanup.policy"]:
        _log.warning("topic %s is not compacted: quotas are forgotten when its retention ends", topics.quotas)
    elif int(configs[topics.quotas]["min.compaction.lag.ms"]) < QUOTAS_KEPT_MS:
        _log.warning(
            "topic %s may be compacted after %s ms: requests that are older may be judged by later quotas; "
            "set min.compaction.lag.ms=%d on the topic",
            topics.quotas,
            configs[topics.quotas]["min.compaction.lag.ms"],
            QUOTAS_KEPT_MS,
        )
