"""The order of responses, mutations as barriers, mutes, and forwarding without buffering."""

import struct
from contextlib import nullcontext

import pytest

from quota.gateway.pipeline import ChannelError
from tests.support.wire.requests import creation, deletion, metadata
from tests.unit.quota.gateway.cluster import Cluster


def produce(size=0, acks=1):
    records = bytes(size)
    partition = {"index": 0, "records": records}
    return {
        "transactionalId": None,
        "acks": acks,
        "timeoutMs": 1,
        "topicData": [{"name": "t", "partitionData": [partition]}],
    }


SHARE = {"groupId": "g", "memberId": "m", "shareSessionEpoch": 0, "topics": []}
FETCH = {"topics": [], "forgottenTopicsData": [], "replicaId": -1, "maxWaitMs": 1, "minBytes": 1}


class TestOrder:
    """Requests written at once."""

    def test_all_responses_come_in_order(self, play):
        """Requests after a mutation reach the broker once it is answered."""
        on = play(Cluster(old=2))
        frames = [
            on.frame(3, 12, metadata("old")),
            on.frame(19, 7, creation("a")),
            on.frame(3, 12, metadata("a")),
            on.frame(19, 7, creation("b")),
            on.frame(18, 4, {}),
            on.frame(20, 6, deletion("old")),
            on.frame(3, 12, metadata("old")),
        ]
        on.send_bytes(b"".join(frames))
        on.serve()
        on.decide()
        on.pass_time(0)
        on.decide(rejected={"b"})
        on.pass_time(0)
        on.decide()
        on.pass_time(0)

        answers = on.answers()
        assert len(answers) == 7
        codes = [[topic["errorCode"] for topic in answers[number]["topics"]] for number in (0, 1, 2, 3, 6)]
        assert codes == [[0], [0], [0], [89], [3]]
        assert [response["errorCode"] for response in answers[5]["responses"]] == [0]

    def test_a_mutation_does_not_overtake_earlier_requests(self, play):
        """A fetch that takes long is answered first."""
        on = play()
        on.send(1, 12, FETCH)
        slow = on.next_answer()
        on.send(19, 7, creation("a"))
        validated = on.next_answer()
        assert (on.answers(), on.ports.requested) == ([], [])
        on.channel.from_broker(slow)
        on.channel.from_broker(validated)
        on.decide(rejected={"a"})
        assert [("sessionId" in answer, answer.get("topics") and True) for answer in on.answers()] == [
            (True, None),
            (False, True),
        ]

    def test_produce_without_acknowledgement_has_no_response(self, play):
        on = play()
        on.send_bytes(on.frame(0, 9, produce(acks=0)) + on.frame(0, 9, produce(acks=-1)) + on.frame(3, 12, metadata()))
        on.serve()
        assert on.keys_seen() == [0, 0, 3]
        assert ["responses" in answer for answer in on.answers()] == [True, False]

    def test_an_unexpected_response_closes_the_connection(self, play):
        """The response has a different correlation id or an invalid length, or none is expected."""
        for requests, length, correlation_id in ((1, 4, 99), (1, -1, 1), (1, 3, 1), (0, 4, 1)):
            on = play()
            for _ in range(requests):
                on.send(3, 12, metadata())
            with pytest.raises(ChannelError) as error:
                on.channel.from_broker(struct.pack(">ii", length, correlation_id))
            assert error.value.reason == "answer"


class TestPassingOn:
    """Frames that are not parsed."""

    def test_a_large_request_is_forwarded_piece_by_piece(self, play):
        """Only the head of 30 MB is buffered."""
        on = play()
        frame = on.frame(0, 9, produce(size=30_000_000))
        sent = 0
        for at in range(0, len(frame), 65_536):
            piece = frame[at : at + 65_536]
            on.send_bytes(piece)
            sent += len(piece)
            assert len(on.channel.requests) == 0
            assert len(on.ports.broker) == sent
        assert bytes(on.ports.broker) == frame

    def test_a_large_response_is_forwarded_piece_by_piece(self, play):
        on = play()
        on.send(1, 12, FETCH)
        answer = struct.pack(">ii", 5_000_000, 1) + bytes(4_999_996)
        for at in range(0, len(answer), 65_536):
            on.channel.from_broker(answer[at : at + 65_536])
            assert len(on.ports.client) == min(at + 65_536, len(answer))
        assert on.channel.is_idle

    def test_bytes_after_a_message_are_relayed(self, play):
        """librdkafka writes some, and brokers ignore them."""
        on = play()
        frame = on.frame(3, 12, metadata())[4:] + b"behind"
        on.send_bytes(len(frame).to_bytes(4) + frame)
        assert bytes(on.ports.broker) == len(frame).to_bytes(4) + frame

    def test_bytes_after_a_mutation_change_nothing(self, play):
        on = play()
        frame = on.frame(19, 7, creation("a"))[4:] + on.frame(19, 7, creation("b"))
        on.send_bytes(len(frame).to_bytes(4) + frame)
        on.serve()
        on.decide()
        assert set(on.cluster.topics) == {"a"}
        assert bytes(on.ports.broker) == b""


class TestMutes:
    """KIP-219."""

    def test_a_muted_channel_forwards_the_rest_of_a_request(self, play):
        """Requests that are there wait; a large one waits with its head."""
        on = play()
        on.mutate(19, 7, creation("a"), throttle_ms=500)
        frame = on.frame(0, 9, produce(size=100_000))
        on.send_bytes(frame[:70_000])
        assert (on.channel.is_waiting, len(on.channel.requests), bytes(on.ports.broker)) == (True, 70_000, b"")
        on.pass_time(499)
        on.send_bytes(frame[70_000:])
        on.serve()
        assert (on.channel.is_waiting, on.keys_seen()[-1]) == (True, 19)
        on.pass_time(1)
        on.serve()
        assert on.keys_seen()[-1] == 0

    def test_another_connection_of_the_client_is_not_muted(self, play):
        first = play()
        second = play(first.cluster, context=first.context)
        mute(first)
        assert second.call(3, 12, metadata())["brokers"]


def mute(on):
    """Mute a channel for 500 ms."""
    on.mutate(19, 7, creation("muting"), throttle_ms=500)
    assert on.answers()[-1]["throttleTimeMs"] == 500


UNKNOWN = struct.pack(">ihhih", 12, 999, 0, 1, -1) + bytes(2)
"""A request for which a broker closes the connection."""


class TestEnds:
    """Connections that end."""

    def test_requests_before_a_rejected_one_are_answered(self, play):
        """They are written at once: twenty are relayed, one is a mutation, whose decision takes a while."""
        on = play()
        frames = [on.frame(3, 12, metadata()) for _ in range(20)]
        on.send_bytes(b"".join(frames) + on.frame(19, 7, creation("a")) + UNKNOWN)
        on.serve()
        with pytest.raises(ChannelError, match="API 999"):
            on.decide()
        answers = on.answers()
        assert (len(answers), answers[-1]["topics"][0]["errorCode"]) == (21, 0)
        assert set(on.cluster.topics) == {"a"}

    def test_bytes_after_a_rejected_request_are_discarded(self, play):
        """The connection is about to be closed; they take no memory, and reach no broker."""
        on = play()
        on.send_bytes(on.frame(3, 12, metadata()) + UNKNOWN)
        on.send_bytes(bytes(100_000))
        assert len(on.channel.requests) == 0
        with pytest.raises(ChannelError, match="API 999"):
            on.serve()
        assert (on.keys_seen(), len(on.answers())) == ([3], 1)

    @pytest.mark.parametrize(
        "request_of_one",
        [
            (1, 11, FETCH | {"rackId": ""}),
            (16, 2, {}),
            (34, 2, {"dirs": []}),
            (35, 2, {"topics": None}),
            (61, 0, {"topics": []}),
            (66, 0, {"stateFilters": [], "producerIdFilters": []}),
            (78, 1, SHARE | {"maxWaitMs": 1, "minBytes": 1, "maxBytes": 1, "forgottenTopicsData": []}),
            (79, 1, SHARE),
        ],
    )
    def test_a_broker_does_not_answer_for_another_one(self, play, request_of_one):
        """It would tell its own groups, files or transactions, records as a follower, or end a member's session."""
        on = play()
        on.channel.stand_in(19_093)
        on.send(3, 12, metadata("a"))
        on.send(*request_of_one)
        with pytest.raises(ChannelError, match="another cannot answer for it"):
            on.serve()
        assert (len(on.answers()), on.keys_seen()) == (1, [3])

        begun = play()
        begun.send(*request_of_one)
        with pytest.raises(ChannelError, match="another cannot answer for it"):
            begun.channel.stand_in(19_093)

    def test_a_broker_in_the_place_of_another_offers_no_fetch_that_followers_answer(self, play):
        """One that lags behind a leader would tell consumers that their offsets are out of range."""
        shared, last = play().context, []
        for stands_in in (False, True):  # the brokers' answers are the same
            on = play(context=shared)
            if stands_in:
                on.channel.stand_in(19_093)
            last += [api["maxVersion"] for api in on.call(18, 4, {})["apiKeys"] if api["apiKey"] == 1]
        assert last == [17, 10]
        on.exchange(1, 10, FETCH)
        assert on.keys_seen() == [18, 1]

    @pytest.mark.parametrize(("port", "is_ended"), [(19_092, True), (19_093, False)])
    def test_a_connection_ends_when_its_client_learns_the_right_broker(self, play, port, is_ended):
        """It gets the answer; the brokers of these tests have port 19092."""
        on = play()
        on.channel.stand_in(port)
        with pytest.raises(ChannelError, match="the broker of its port responds again") if is_ended else nullcontext():
            on.exchange(3, 12, metadata("a"))
        assert len(on.answers()) == 1

    def test_a_limit_of_the_server_ends_the_channel_after_its_answers(self, play):
        """It discards the incomplete request, and forwards the rest of one that is on its way to the broker."""
        on = play()
        on.send(3, 12, metadata())
        frame = on.frame(0, 9, produce(size=5000))
        on.send_bytes(frame[:1000])
        on.channel.end(ChannelError("memory", "too much"))
        on.send_bytes(frame[1000:] + UNKNOWN)
        with pytest.raises(ChannelError, match="too much"):
            on.serve()
        assert (on.keys_seen(), len(on.answers())) == ([3, 0], 2)

    def test_nothing_continues_after_the_client_has_disconnected(self, play):
        """Neither a pending mutation nor a pause continues."""
        for cluster in (Cluster(), Cluster(a=1)):
            on = play(cluster)
            cluster.unseen.add("a")
            on.exchange(*((20, 6, deletion("a")) if "a" in cluster.topics else (19, 7, creation("a"))))
            on.channel.close()
            on.channel.go_on()
            on.serve()
            assert on.changes_seen() == []

    def test_the_channel_reports_its_own_state(self, play):
        on = play()
        assert on.channel.is_idle
        on.exchange(19, 7, creation("a"))
        assert not on.channel.is_idle
        on.decide()
        assert on.channel.is_idle
