"""The frames of a channel: requests on their way to a broker, their answers, and bytes cut into any chunks."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.gateway.pipeline import ChannelError, Pipeline
from quota.records.decision_request import DecisionReply
from quota.wire.headers import RequestHeader
from tests.unit.quota.gateway.cluster import NO_ID, Cluster
from tests.unit.quota.gateway.play import Play, decision_on


@pytest.fixture
def pipeline(protocol):
    return Pipeline(protocol)


def header(number, key=3, version=12):
    return RequestHeader(key, version, number, None)


def sent(lists):
    return b"".join(lists)


def test_an_own_response_never_interrupts_a_forwarded_one(pipeline):
    """The own response may be ready before the first bytes of that one, or later."""
    pipeline.expect(header(1))
    pipeline.respond(header(2, 18, 0), {"errorCode": 0, "apiKeys": []})
    pipeline.take(struct.pack(">ii", 9, 1) + b"ab")
    pipeline.respond(header(3, 18, 0), {"errorCode": 0, "apiKeys": []})
    pipeline.take(b"cd")
    assert not pipeline.is_idle
    pipeline.take(b"e")
    own = [struct.pack(">iihi", 10, number, 0, 0) for number in (2, 3)]
    assert sent(pipeline.to_client) == struct.pack(">ii", 9, 1) + b"abcde" + b"".join(own)
    assert pipeline.is_idle


def test_a_response_that_is_read_whole_has_256_mb_at_most(pipeline):
    """It is rejected by its length; a forwarded response may have any."""
    pipeline.expect(header(1), lambda *_: None)
    with pytest.raises(ChannelError, match="the response to API 3 has 268435457 bytes"):
        pipeline.take(struct.pack(">ii", 256 * 1024 * 1024 + 1, 1))


ALICE = b"\0alice\0secret"


def session(on):
    """A session with everything: SASL, relayed requests, mutations of each kind, and one without an answer."""
    topics = [
        {"name": name, "numPartitions": -1, "replicationFactor": 1, "assignments": [], "configs": []}
        for name in ("new", "rejected", "there")
    ]
    one = {"topics": [{"name": "there", "topicId": NO_ID}], "allowAutoTopicCreation": True}
    data = {"transactionalId": "t", "acks": 0, "timeoutMs": 1}
    return [
        on.frame(18, 4, {"clientSoftwareName": "x", "clientSoftwareVersion": "1"}),
        on.frame(17, 1, {"mechanism": "PLAIN"}),
        on.frame(36, 2, {"authBytes": ALICE}),
        on.frame(3, 12, one),
        on.frame(3, 1, {"topics": [{"name": "there"}, {"name": "nowhere"}]}),
        on.frame(19, 7, {"topics": topics, "timeoutMs": 30_000, "validateOnly": False}),
        on.frame(0, 9, {**data, "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": bytes(300)}]}]}),
        on.frame(0, 9, {**data, "acks": 1, "topicData": []}),
        on.frame(37, 1, {"topics": [{"name": "there", "count": 9, "assignments": None}], "timeoutMs": 30_000}),
        on.frame(20, 5, {"topicNames": ["there", "nowhere", "new"], "timeoutMs": 30_000}),
        on.frame(10, 4, {"coordinatorKeys": ["g"], "keyType": 0}),
    ]


def cuts(data, pieces):
    """Cut bytes at the places that `pieces` draws."""
    places = [0, *sorted(pieces), len(data)]
    return [data[start:end] for start, end in pairwise(places) if start < end]


class Session:
    """A session whose bytes are cut on their way, on both sides, and whose decisions and mutes take no time."""

    def __init__(self, protocol, cut):
        cluster = Cluster(there=2)
        cluster.accepts = {ALICE: {}}
        self._on = Play(protocol, cluster, authenticates=True)
        self._cut = cut
        self._requested = []

    def outcome(self):
        """Play a session; return all bytes that the client and the broker got, and the requests for decisions."""
        frames = session(self._on)
        # A client that authenticates waits for the answer.
        for part in (b"".join(frames[:3]), b"".join(frames[3:])):
            for piece in self._cut(part):
                self._on.channel.from_client(piece)
                while self._answer() or self._decide() or self._pass_time():
                    pass
        return bytes(self._on.ports.client), self._on.seen, self._requested

    def _answer(self):
        answer = self._on.next_answer()
        for piece in self._cut(answer or b""):
            self._on.channel.from_broker(piece)
        return answer is not None

    def _decide(self):
        if not self._on.ports.requested:
            return False
        ask = self._on.ports.requested.pop()
        self._requested.append((ask.request, ask.content_digest))
        self._on.channel.go_on(DecisionReply(decision_on(ask.request, {"rejected"}, 40), 5))
        return True

    def _pass_time(self):
        on = self._on
        if on.ports.pauses:
            on.ports.pauses.clear()
            on.channel.go_on()
            return True
        on.ports.time = max(on.ports.time, on.context.mutes.next_at() or 0)
        due = list(on.context.mutes.due(on.ports.time))
        for channel in due:
            channel.resume()
        return bool(due)


@pytest.fixture(scope="module")
def uncut(protocol):
    """The outcome of the session in whole pieces, checked once."""
    result = Session(protocol, lambda data: [data]).outcome()
    to_client, seen, requested = result
    assert [key for key, _, _ in seen] == [18, 17, 36, 3, 3, 19, 19, 0, 0, 3, 37, 3, 37, 3, 37, 20, 3, 20, 10]
    assert [[topic.name for topic in request.topics] for request, _ in requested] == [
        ["new", "rejected"],
        ["there"],
        ["there", "new"],
    ]
    assert len(to_client) > 500
    return result


def test_chunks_arrive_one_byte_at_a_time(protocol, uncut):
    assert Session(protocol, lambda data: [data[at : at + 1] for at in range(len(data))]).outcome() == uncut


@given(data=st.data())
def test_chunks_may_have_any_sizes(protocol, uncut, data):

    def cut(whole):
        return cuts(whole, data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))

    assert Session(protocol, cut).outcome() == uncut
