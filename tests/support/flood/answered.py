"""A comparison of the request topic with its answers: each record has one, of the right kind."""

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from quota.kafka.reading import read_topic
from quota.settings import Settings
from tests.support.topics import end_offsets

Position = tuple[int, int]
"""Partition and offset."""

# The source is near the end of an answer; the fields before it may quote anything.
_SOURCE = re.compile(rb'.*"source":\{"topic":"[^"]*","partition":(\d+),"offset":(\d+)\}', re.DOTALL)
_ANSWER_SECONDS = 30.0


@dataclass(slots=True)
class Answered:
    """The result of the comparison."""

    decided: int = 0
    dead: int = 0
    lost: list[Position] = field(default_factory=list)
    doubled: int = 0
    wrong: list[Position] = field(default_factory=list)
    """Good requests among the dead letters, and invalid records among the decisions."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is lost, duplicated or wrong."""
        return not (self.lost or self.doubled or self.wrong)


def answered(settings: Settings, good: AbstractSet[Position]) -> Answered:
    """Compare the topics of a deployment."""
    topics = settings.topics
    wanted = {
        (partition, offset)
        for partition, end in end_offsets(settings, topics.requests).items()
        for offset in range(end)
    }
    decided, dead = _sources(settings, topics.decisions), _sources(settings, topics.dead_letters)
    return Answered(
        decided=len(decided),
        dead=len(dead),
        lost=sorted(wanted - decided.keys() - dead.keys()),
        doubled=(decided + dead).total() - len(decided + dead),
        wrong=sorted((decided.keys() - good) | (dead.keys() & good)),
    )


def _sources(settings: Settings, topic: str) -> Counter[Position]:
    """Return the positions that a topic answers, each with its number of answers."""
    found: Counter[Position] = Counter()
    for message in read_topic(settings.kafka.connection, topic, _ANSWER_SECONDS):
        partition, offset = _SOURCE.match(message.value()).groups()
        found[int(partition), int(offset)] += 1
    return found
