"""Checks of topics that exist, against what the jobs need."""

import logging
from collections.abc import Iterator, Mapping

from quota.kafka.topics.specs import QUOTAS_RETAINED_MS, max_answer_bytes, user_topic_names
from quota.kafka.topics.topic_admin import DescribedTopic
from quota.settings import Settings

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
