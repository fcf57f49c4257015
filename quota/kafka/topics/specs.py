"""The topics of a deployment: their names, partitions, configs and record sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quota.admission.identity import user_of
from quota.admission.policy import MAX_REQUEST_RECORD_BYTES
from quota.settings import Settings

GROWTH = 6
"""The maximum growth from a request to its answer: each byte becomes at most this many, plus `ENVELOPE` bytes in all.

JSON writes a control character in six bytes; a topic that is rejected grows fivefold.
"""

ENVELOPE = 8192

MAX_QUOTA_BYTES = 8 * 1024 * 1024
"""The largest record of the quota topic: the metadata of a cluster with some hundred thousand partitions."""

_BROKER_DEFAULT_BYTES = 1_048_588

MAX_RECORD_BYTES = max(MAX_REQUEST_RECORD_BYTES + ENVELOPE, _BROKER_DEFAULT_BYTES)
"""The largest record of a request topic: it is above the limit, so that a request over it becomes a dead letter."""

MAX_ANSWER_BYTES = GROWTH * MAX_REQUEST_RECORD_BYTES + ENVELOPE
"""The largest decision or dead letter."""

QUOTAS_RETAINED_MS = 7 * 24 * 3600 * 1000
"""How long the quota topic retains every change, before compaction leaves only the last one of each entity."""

_RESULTS_RETAINED_MS = 7 * 24 * 3600 * 1000
"""How long the results topic retains results, by which an applier recognizes a decision that was written twice: it is
carried out once, even if the enforcing query was down for up to this time in between [ms]."""

_POSITIONS_SEGMENT_BYTES = 16 * 1024 * 1024
"""Segments of the positions topic are small, since only its latest records are needed."""

_STAMPED_BY_BROKER = {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The specification of a topic to create."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    replication_factor: int = -1
    """The number of replicas of each partition; -1 for the cluster's default."""


def topic_specs(settings: Settings) -> tuple[TopicSpec, ...]:
    """Return the topics of a deployment, without those of users."""
    topics = settings.topics
    answers = {**_STAMPED_BY_BROKER, "max.message.bytes": str(MAX_ANSWER_BYTES)}
    return (
        *([] if topics.user_topic_prefix else [requests_spec(settings, topics.requests)]),
        TopicSpec(topics.decisions, topics.partitions, answers),
        TopicSpec(topics.dead_letters, topics.partitions, answers),
        # One partition gives the changes one order. All changes of a week are retained, so that a job that was
        # down for some days still decides its backlog by the quotas of that time.
        TopicSpec(
            topics.quotas,
            1,
            {
                **_STAMPED_BY_BROKER,
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": str(QUOTAS_RETAINED_MS),
                "max.message.bytes": str(MAX_QUOTA_BYTES),
            },
        ),
        TopicSpec(topics.results, topics.partitions, {**answers, "retention.ms": str(_RESULTS_RETAINED_MS)}),
        TopicSpec(topics.positions, 1, {"cleanup.policy": "compact", "segment.bytes": str(_POSITIONS_SEGMENT_BYTES)}),
    )


def requests_spec(settings: Settings, name: str) -> TopicSpec:
    """Return a topic of requests: the shared one, or that of a user."""
    size = {"max.message.bytes": str(MAX_RECORD_BYTES)}
    return TopicSpec(name, settings.topics.partitions, {**_STAMPED_BY_BROKER, **size})


def user_topic_names(names: Iterable[str], settings: Settings) -> list[str]:
    """Return the users' own request topics among `names`, sorted."""
    prefix = settings.topics.user_topic_prefix
    return [] if prefix is None else sorted(name for name in names if user_of(name, prefix) is not None)
