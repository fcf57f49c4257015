"""Whether every record of the request topic has its answer, of the right kind, and none of them twice."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from quota.settings import Settings

Place = tuple[int, int]
"""Partition and offset."""

# Both answers end with their source but for a few fields; what stands before may quote anything.
_SOURCE = re.compile(rb'.*"source":\{"topic":"[^"]*","partition":(\d+),"offset":(\d+)\}', re.DOTALL)
_AT_ONCE = 500
_POLL_SECONDS = 2.0


@dataclass(slots=True)
class Answered:
    """What was found."""

    decided: int = 0
    dead: int = 0
    lost: list[Place] = field(default_factory=list)
    doubled: int = 0
    wrong: list[Place] = field(default_factory=list)
    """Good requests among the dead letters, and the other way round."""

    @property
    def is_sound(self) -> bool:
        """Nothing lost, nothing doubled, nothing wrong."""
        return not (self.lost or self.doubled or self.wrong)


def answered(settings: Settings, good: AbstractSet[Place]) -> Answered:
    """Compare the topics of a deployment whose job has worked off what was there.

    Args:
        settings: the deployment.
        good: where the good requests stand; all others are bad ones.
    """
    topics, found = settings.topics, Answered()
    wanted = {
        (partition, offset) for partition, end in ends(settings, topics.requests).items() for offset in range(end)
    }
    decided, doubled_decisions = _sources(settings, topics.decisions)
    dead, doubled_letters = _sources(settings, topics.dead_letters)
    found.decided, found.dead = len(decided), len(dead)
    found.doubled = doubled_decisions + doubled_letters + len(decided & dead)
    found.lost = sorted(wanted - decided - dead)
    found.wrong = sorted((decided - good) | (dead & good))
    return found


def ends(settings: Settings, topic: str) -> dict[int, int]:
    """The end of each partition."""
    consumer = _consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return {each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1] for each in partitions}
    finally:
        consumer.close()


def _sources(settings: Settings, topic: str) -> tuple[set[Place], int]:
    """The places that a topic answers, and how many answers are doubles."""
    left = ends(settings, topic)
    consumer = _consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    found: set[Place] = set()
    count = 0
    try:
        while any(
            consumer.position([TopicPartition(topic, each)])[0].offset < end for each, end in left.items() if end
        ):
            for message in consumer.consume(_AT_ONCE, _POLL_SECONDS):
                partition, offset = _SOURCE.match(message.value()).groups()
                found.add((int(partition), int(offset)))
                count += 1
    finally:
        consumer.close()
    return found, count - len(found)


def _consumer(settings: Settings) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": "flood",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.max.messages.kbytes": 64 * 1024,
        }
    )
