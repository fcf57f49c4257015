"""Frames that are nearly requests of the APIs that the gateway parses."""

import random
import struct

from quota.wire.headers import RequestHeader, read_request_header, write_request
from quota.wire.primitives import Malformed
from quota.wire.schemas import read_schemas, struct_of
from tests.support.checkout import CHECKOUT
from tests.support.gateway import protocol
from tests.support.wire.messages import random_message
from tests.support.wire.mutations import mutated
from tests.support.wire.requests import NO_ID, creation

_KEYS = (3, 10, 17, 18, 19, 19, 19, 20, 20, 20, 36, 37, 37, 37, 60)
"""Three times as many of those that change topics."""
_MAX_COUNT = 100


class Fuzz:
    """Frames from a seed."""

    def __init__(self, seed, topics):
        """Aim at topics, whose ids are given by name."""
        self._chance = random.Random(seed)
        self._topics = list(topics.items())
        self._schemas = read_schemas(CHECKOUT / ".jars" / "broker")
        self._before = b""

    def batch(self):
        """Return some frames to be written at once."""
        frames = [self._frame() for _ in range(self._chance.randint(1, 8))]
        return [self._framed(frame) for frame in frames if not _kills_kafka(frame)]

    def _frame(self):
        chance = self._chance
        api = protocol().apis[chance.choice(_KEYS)]
        version = chance.randint(api.min_version, api.max_version)
        if chance.random() < 0.6 and api.key in {19, 20, 37}:
            message = self._aimed(api.key, version)
        else:
            message = random_message(chance, struct_of(self._schemas[f"{api.name}Request"], version))
        header = RequestHeader(api.key, version, chance.randint(-(2**31), 2**31 - 1), chance.choice([None, "", "fuzz"]))
        whole = write_request(header, protocol().request(api.key, version).write(message), protocol())[4:]
        frame = whole if chance.random() < 0.3 else mutated(chance, whole, self._before)
        self._before = whole
        return frame

    def _aimed(self, key, version):
        """A valid request to change topics, which needs a decision."""
        chance = self._chance
        timeout = {"timeoutMs": chance.choice([-1, 0, 50, 200, 30_000])}
        chosen = chance.choices(self._topics, k=chance.randint(1, 3))
        if key == 19:
            return creation(*(f"fuzzed-{chance.randrange(10**6)}" for _ in chosen), partitions=1, **timeout)
        if key == 37:
            topics = [{"name": name, "count": chance.randint(1, 9), "assignments": None} for name, _ in chosen]
        elif version < 6:
            return {"topicNames": [name for name, _ in chosen], **timeout}
        else:
            ways = [
                chance.choice([(name, NO_ID), (None, topic_id), (name, topic_id), (None, NO_ID)])
                for name, topic_id in chosen
            ]
            topics = [{"name": name, "topicId": topic_id} for name, topic_id in ways]
        return {"topics": topics, **timeout}

    def _framed(self, frame):
        length = len(frame)
        if self._chance.random() < 0.02:
            length += self._chance.choice([-20, -1, 1, 7, 1000, 2**30])
        return struct.pack(">i", length) + frame


def _kills_kafka(frame):
    """Return whether a frame lets a topic grow by so much that the controller of Kafka 4.2.1 runs out of memory."""
    try:
        header = read_request_header(frame, protocol())
        if header is None or header.api_key != 37:
            return False
        message = protocol().request(37, header.api_version).read(frame, header.body)
    except Malformed:
        return False
    return any(topic["count"] > _MAX_COUNT for topic in message["topics"])
