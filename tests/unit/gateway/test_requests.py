"""Limits on what a client may send: sizes, numbers, and frames that are not valid requests."""

import struct

import pytest

from quota.gateway.context import ChannelError
from quota.wire.primitives import Malformed
from tests.unit.gateway.play import take_frames

METADATA = {"topics": [], "allowAutoTopicCreation": False}


@pytest.mark.parametrize("length", [-1, 9, 2**31 - 1])
def test_an_invalid_request_length_closes_the_connection(play, length):
    """Lengths from 10 bytes up to the setting are valid."""
    with pytest.raises(ChannelError, match=f"a request of {length} bytes") as error:
        play().send_bytes(struct.pack(">i", length))
    assert error.value.reason == "size"


@pytest.mark.parametrize("key", [3, 18, 19, 36])
def test_a_request_that_is_read_whole_has_8_mb_at_most(play, key, protocol):
    """It is rejected by its head, without waiting for the rest."""
    head = struct.pack(">ihh", 8 * 1024 * 1024 + 1, key, protocol.apis[key].max_version)
    on = play()
    with pytest.raises(ChannelError, match="10 to 8388608 are allowed"):
        on.send_bytes(head + bytes(4))
    assert on.channel.held_bytes < 100


def test_a_request_of_too_many_elements_is_malformed(play):
    """Reading it would delay other clients."""
    on = play()
    with pytest.raises(Malformed, match="more elements"):
        on.send(20, 5, {"topicNames": ["t"] * 20_001, "timeoutMs": 1})


def test_a_head_that_is_incomplete_after_128_kib_is_malformed(play):
    head = struct.pack(">hhih", 0, 9, 1, -1) + b"\0" + b"\xff\xff\xff\xff\x07"
    with pytest.raises(Malformed):
        play().send_bytes((200_000).to_bytes(4) + head + bytes(180_000))


def test_a_request_that_ends_within_its_header_is_malformed(play):
    """The bytes of the next request are not taken for its own."""
    for key, version in ((19, 7), (1, 12)):
        with pytest.raises(Malformed):
            play().send_bytes(struct.pack(">ihhih", 20, key, version, 1, 500) + bytes(600))


def test_the_setting_limits_forwarded_requests(play):
    """Kafka's `socket.request.max.bytes`."""
    on = play(max_request_bytes=1000)
    with pytest.raises(ChannelError, match="a request of 1001 bytes; 10 to 1000 are allowed"):
        on.send_bytes((1001).to_bytes(4))


def test_requests_wait_while_a_thousand_answers_are_outstanding(play):
    """The gateway remembers more bytes of a request than it has: their number is bounded."""
    on = play()
    on.send_bytes(b"".join(on.frame(3, 12, METADATA) for _ in range(2500)))
    assert on.channel.is_full
    assert len(take_frames(bytearray(on.ports.broker))) == 1000
    on.serve(10_000)
    assert len(on.answers()) == 2500
    assert not on.channel.is_full
    assert on.channel.held_bytes == 0


def test_the_gateways_own_outstanding_responses_are_bounded(play):
    """Those that wait for the broker's count, too."""
    on = play()
    on.send(3, 12, METADATA)
    unknown = struct.pack(">ihhih", 14, 18, 999, 2, -1) + b"\0\x01\x01\0"
    on.send_bytes(unknown * 5000)
    assert on.channel.is_full
    assert on.channel.held_bytes == 4001 * len(unknown)
    on.serve()
    assert len(take_frames(on.ports.client)) == 5001
