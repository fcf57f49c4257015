"""Malicious and faulty clients at a running gateway: it survives, stays small, and serves other clients."""

import os
import random
import resource
import socket
import struct
import sys
from contextlib import ExitStack

import pytest

from quota.records.entity import QuotaEntity
from quota.wire.headers import RequestHeader, read_request_header, write_request
from quota.wire.primitives import Malformed
from quota.wire.schemas import read_schemas, struct_of
from tests.support.checkout import CHECKOUT
from tests.support.gateway import is_closed, protocol, settled, wire_client
from tests.support.waiting import until
from tests.support.wire.messages import random_message
from tests.support.wire.mutations import mutated
from tests.support.wire.requests import NO_ID, creation, metadata

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


OPTIONS = ("gateway.max_connections=1500", "gateway.decision_timeout_seconds=4")
CONSTANTS = {"jobs.gateway.server._MAX_IDLE_SECONDS": 5.0, "jobs.gateway.server._CLOSE_SECONDS": 1.0}
MEBIBYTE = 1024 * 1024


def errors(answer, field="topics"):
    return [topic["errorCode"] for topic in answer[field]]


@pytest.fixture(autouse=True)
def _nothing_is_left(plain):
    """After each test other clients are served, and all sockets of the test are closed."""
    with wire_client(plain.gateway.port, "probe") as probe:
        assert probe.call(3, 12, metadata())["brokers"]
    before = plain.gateway.sockets()
    yield
    with wire_client(plain.gateway.port, "probe") as probe:
        assert probe.call(3, 12, metadata())["brokers"]
    settled(plain.gateway, before + 4)
    assert plain.gateway.rss_bytes() < 250 * MEBIBYTE


def lying_array():
    frame = struct.pack(">hhih", 19, 4, 1, -1) + struct.pack(">i", 2**31 - 1) + bytes(30)
    return struct.pack(">i", len(frame)) + frame


HOSTILE = {
    "length -1": struct.pack(">i", -1),
    "length 2^31 - 1": struct.pack(">i", 2**31 - 1) + bytes(100),
    "TLS": bytes.fromhex("160301020001000001fc0303") + bytes(500),
    "unknown API": struct.pack(">ihhih", 12, 999, 0, 1, -1) + bytes(2),
    "an array that lies": lying_array(),
    "a header that lies": struct.pack(">ihhih", 20, 19, 7, 1, 32_000) + bytes(10),
    "not UTF-8": struct.pack(">ihhih", 16, 3, 4, 1, -1) + struct.pack(">ih", 1, 2) + b"\xff\xfe",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_invalid_request_closes_the_connection_at_once(plain, data):
    """It does not wait for a time limit."""
    with plain.gateway.connect(seconds=10) as client:
        client.sendall(data)
        assert is_closed(client)


def test_a_client_that_sends_two_bytes_is_disconnected_after_the_idle_time(plain):
    """A client that sends nothing and one that sends an incomplete request are disconnected, too."""
    with ExitStack() as stack:
        clients = [stack.enter_context(plain.gateway.connect()) for _ in range(3)]
        for client, data in zip(clients, (b"", b"\0\0", struct.pack(">ihh", 100, 19, 7)), strict=True):
            client.sendall(data)
        assert [is_closed(client) for client in clients] == [True] * 3


def test_a_client_that_never_reads_is_held_back_and_disconnected(plain):
    """It requests large responses without end: the gateway does not buffer them, and ends the connection as idle."""
    everything = {"topics": None, "allowAutoTopicCreation": False}
    frame = write_request(RequestHeader(3, 12, 1, "x"), protocol().request(3, 12).write(everything), protocol())
    requests, sent, sizes = frame * 500, 0, []
    with plain.gateway.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)

        def is_disconnected():
            nonlocal sent
            sizes.append(plain.gateway.rss_bytes())
            try:
                for _ in range(1000):
                    sent += client.send(requests[sent % len(requests) :])
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return False

        until(is_disconnected, 40)
    assert max(sizes) < sizes[0] + 40 * MEBIBYTE


def test_half_open_connections_are_bounded_by_the_settings(plain):
    """Some 1,500 of 5,000 are accepted; the others are closed at once, and the accepted ones when they are idle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    clients = []
    try:
        with wire_client(plain.gateway.port, "others") as others:
            for number in range(5000):
                clients.append(plain.gateway.connect())
                clients[-1].sendall(b"\0\0")
                if number % 100 == 0:  # more often than its idle time ends
                    assert others.call(3, 12, metadata())["brokers"]
                if number % 500 == 0:
                    settled(plain.gateway, 1600)  # what is accepted at once is closed a moment later
            assert others.call(3, 12, metadata())["brokers"]
        assert [is_closed(client) for client in clients] == [True] * 5000
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_client_that_disconnects_before_its_decision_leaves_no_topic(plain):
    """The decision comes, and is not carried out."""
    plain.job.silent = True
    taken, decided = plain.job.taken, len(plain.job.requests)
    try:
        with wire_client(plain.gateway.port, "leaver") as leaver:
            leaver.write(leaver.frame(19, 7, creation("left-behind", partitions=1)))
            until(lambda: plain.job.taken > taken)
            assert plain.gateway.clients()
        until(lambda: not plain.gateway.clients())
    finally:
        plain.job.silent = False
    until(lambda: len(plain.job.requests) > decided)
    with wire_client(plain.gateway.port, "good") as good:
        assert errors(good.call(19, 7, creation("after", partitions=1))) == [0]
        assert errors(good.call(3, 12, metadata("left-behind"))) == [3]


def test_a_muted_client_that_disconnects_releases_its_sockets_at_once(plain):
    """They are not held until the mute ends in minutes. It has written more than is read during the mute."""
    plain.job.set_quota(QuotaEntity(client_id="muted"), 0.001)
    before = plain.gateway.sockets()
    with wire_client(plain.gateway.port, "muted") as muted:
        answer = muted.call(19, 5, creation(*(f"muting-{number}" for number in range(3)), partitions=2))
        assert answer["throttleTimeMs"] > 60_000
        muted.write(b"".join(muted.frame(3, 12, metadata()) for _ in range(100)))
    settled(plain.gateway, before + 1, seconds=5)  # the gateway's own producer connects at the first request


def test_fuzzed_frames_of_all_parsed_apis_affect_no_client_and_no_topic(plain, client):
    """Nothing is decided; existing topics stay, none is created, and other clients are served.

    `GATEWAY_FUZZ_FRAMES` is the number of frames, `GATEWAY_FUZZ_SEED` their seed.
    """
    count, seed = int(os.environ.get("GATEWAY_FUZZ_FRAMES", "3000")), int(os.environ.get("GATEWAY_FUZZ_SEED", "599"))
    client.call(19, 7, creation("aimed-a", "aimed-b", partitions=3))
    topics = until(lambda: named_topics(client, {"aimed-a", "aimed-b"}))
    everything = all_topics(client)
    fuzz = Fuzz(seed, {name: topic_id for name, (topic_id, _) in topics.items()})
    before, sent, closed = plain.gateway.rss_bytes(), 0, 0
    plain.job.silent = True
    try:
        while sent < count:
            batch = fuzz.batch()
            with plain.gateway.connect() as enemy:
                enemy.settimeout(0.02)
                closed += write_and_read(enemy, b"".join(batch))
            sent += len(batch)
            assert client.call(3, 12, metadata("aimed-a"))["topics"]
        assert all_topics(client) == everything
    finally:
        plain.job.discard()
        plain.job.silent = False
    memory = f"memory {before} -> {plain.gateway.rss_bytes()} bytes"
    sys.stderr.write(f"{sent} frames, {closed} connections closed, {plain.job.taken} requests, {memory}\n")
    assert closed > sent // 200
    assert plain.job.taken > 5  # before the gateway notices that nothing is decided
    assert plain.gateway.rss_bytes() < before + 60 * MEBIBYTE


def all_topics(client):
    """Return id and number of partitions of each topic but Kafka's own, which FindCoordinator creates."""
    answer = client.call(3, 12, {"topics": None, "allowAutoTopicCreation": False})
    topics = {topic["name"]: (topic["topicId"], len(topic["partitions"])) for topic in answer["topics"]}
    return {name: value for name, value in topics.items() if not name.startswith("__")}


def named_topics(client, names):
    """Return these topics if all are there."""
    topics = {name: value for name, value in all_topics(client).items() if name in names}
    return topics if len(topics) == len(names) else None


def write_and_read(enemy, data):
    """Write, and read until no more bytes arrive; return whether the connection was closed."""
    try:
        enemy.sendall(data)
        while enemy.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True
