"""Whether every record of the request topic has its answer, of the right kind, and none of them twice."""

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from quota.kafka.stored import read_topic
from quota.settings.model import Settings
from tests.support.records import ends_of

Place = tuple[int, int]
"""Partition and offset."""

# Both answers end with their source but for a few fields; what stands before may quote anything.
_SOURCE = re.compile(rb'.*"source":\{"topic":"[^"]*","partition":(\d+),"offset":(\d+)\}', re.DOTALL)
_ANSWER_SECONDS = 30.0


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
    topics = settings.topics
    wanted = {
        (partition, offset) for partition, end in ends_of(settings, topics.requests).items() for offset in range(end)
    }
    return compared(wanted, good, _sources(settings, topics.decisions), _sources(settings, topics.dead_letters))


def compared(
    wanted: AbstractSet[Place], good: AbstractSet[Place], decided: Counter[Place], dead: Counter[Place]
) -> Answered:
    """What is wrong with the answers to records at the `wanted` places, of which some are `good` requests."""
    return Answered(
        decided=len(decided),
        dead=len(dead),
        lost=sorted(wanted - decided.keys() - dead.keys()),
        doubled=(decided + dead).total() - len(decided + dead),
        wrong=sorted((decided.keys() - good) | (dead.keys() & good)),
    )


def _sources(settings: Settings, topic: str) -> Counter[Place]:
    """The places that a topic answers, and how often each."""
    found: Counter[Place] = Counter()
    for message in read_topic(settings.kafka.connection, topic, _ANSWER_SECONDS):
        partition, offset = _SOURCE.match(message.value()).groups()
        found[int(partition), int(offset)] += 1
    return found
