"""Headers and frames, whole and in part."""

import pytest

from quota.wire.headers import (
    MAX_HEADER,
    RequestHeader,
    acks_of_produce,
    marked_request,
    read_request_header,
    read_response_header,
    write_request,
    write_response,
)
from quota.wire.message_codec import MessageCodec
from quota.wire.primitives import Malformed

V4 = bytes.fromhex("0013 0004 00000007 0003 617070")
"""CreateTopics v4, correlation id 7, client id app: header v1."""

V5 = bytes.fromhex("0013 0005 00000007 0003 617070 00")
"""CreateTopics v5: header v2, with a client id as before, and tags."""

TAGGED = V5[:-1] + bytes.fromhex("02 01 02 abcd ac02 00")


@pytest.mark.parametrize(
    ("frame", "header"),
    [
        (V4, RequestHeader(19, 4, 7, "app", 13)),
        (V5, RequestHeader(19, 5, 7, "app", 14)),
        (TAGGED, RequestHeader(19, 5, 7, "app", 21)),
        (bytes.fromhex("0013 0004 00000007 ffff"), RequestHeader(19, 4, 7, None, 10)),
        (bytes.fromhex("0013 0005 ffffffff 0000 00"), RequestHeader(19, 5, -1, "", 11)),
        (bytes.fromhex("0012 0003 00000001 0001 61 00"), RequestHeader(18, 3, 1, "a", 12)),
        # An unknown newer version has the header of the last: clients begin with their latest ApiVersions.
        (bytes.fromhex("0012 7fff 00000001 0001 61 00"), RequestHeader(18, 32_767, 1, "a", 12)),
        (bytes.fromhex("0011 0001 00000001 0001 61"), RequestHeader(17, 1, 1, "a", 11)),  # it never had tags
    ],
)
def test_a_header_is_read_from_a_frame_or_its_beginning(protocol, frame, header):
    """It is not read before it is complete, and the following bytes are not read."""
    for length in range(len(frame)):
        assert read_request_header(frame[:length], protocol) is None
    for rest in b"", b"\xff", b"\xff" * 300:
        assert read_request_header(frame + rest, protocol) == header


MALFORMED = {
    "an unknown key": ("7fff 0000 00000001 ffff", "API key 32767 is unknown"),
    "tags without end": ("0013 0005 00000007 ffff ffffffff07", "claims 2147483647 tagged fields"),
    "a tag without end": ("0013 0005 00000007 ffff 01 00 ffffffff07", "a header claims 2147483664 bytes"),
    "a varint that is none": ("0013 0005 00000007 ffff 808080808080", "longer than 5 bytes"),
}


@pytest.mark.parametrize(
    ("client_id", "read"),
    [(b"a\xff\xfeb", "a\ufffd\ufffdb"), (b"\xff" * 32_767, "\ufffd" * 10_922)],
    ids=["short", "longest"],
)
def test_a_client_id_that_is_not_utf_8_is_replaced_as_by_a_broker(protocol, client_id, read):
    """It still has at most 32,767 bytes, so that it can be sent."""
    frame = bytes.fromhex("0013 0004 00000007") + len(client_id).to_bytes(2) + client_id
    header = read_request_header(frame, protocol)
    assert header == RequestHeader(19, 4, 7, read, len(frame))
    assert len(write_request(header, b"", protocol)) <= 4 + 10 + 32_767


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_header(protocol, name):
    frame, error = MALFORMED[name]
    with pytest.raises(Malformed, match=error):
        read_request_header(bytes.fromhex(frame), protocol)


def test_a_header_has_a_maximum_size(protocol):
    """The longest client id and tags of as much again; a prefix of the greatest size has all of any header."""
    start = bytes.fromhex("0013 0005 00000007 7fff") + b"a" * 32_767
    size = MAX_HEADER - len(start) - 1 - 1 - 3
    whole = start + bytes.fromhex("01 00") + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    whole += b"t" * size
    assert len(whole) == MAX_HEADER
    assert read_request_header(whole, protocol) == RequestHeader(19, 5, 7, "a" * 32_767, MAX_HEADER)
    assert read_request_header(whole[:-1], protocol) is None


@pytest.mark.parametrize(
    ("header", "frame"),
    [
        (RequestHeader(19, 4, 7, "app"), "0000000f" + V4.hex() + "abcd"),
        (RequestHeader(19, 5, 7, "app"), "00000010" + V5.hex() + "abcd"),
        (RequestHeader(19, 4, -1, "é", 99), "0000000e 0013 0004 ffffffff 0002 c3a9 abcd"),
        (RequestHeader(18, 3, 7, None), "0000000d 0012 0003 00000007 ffff 00 abcd"),
    ],
)
def test_a_request_is_its_length_header_and_body(protocol, header, frame):
    assert write_request(header, b"\xab\xcd", protocol) == bytes.fromhex(frame)


@pytest.mark.parametrize(
    ("request_header", "response"),
    [
        (RequestHeader(19, 4, 7, "app"), "00000006 00000007 abcd"),
        (RequestHeader(19, 5, 7, "app"), "00000007 00000007 00 abcd"),
        (RequestHeader(17, 1, -2, "app"), "00000006 fffffffe abcd"),
        (RequestHeader(18, 4, 7, "app"), "00000006 00000007 abcd"),
    ],
)
def test_a_response_is_its_length_header_and_body(protocol, request_header, response):
    """The response to ApiVersions has none in any version: the client does not know the broker's versions yet."""
    frame = bytes.fromhex(response)
    assert write_response(request_header, b"\xab\xcd", protocol) == frame
    assert read_response_header(frame[4:], request_header, protocol) == len(frame) - 4 - 2
    for length in range(len(frame) - 4 - 2):
        with pytest.raises(Malformed, match="truncated within its header"):
            read_response_header(frame[4:][:length], request_header, protocol)


def test_tags_in_the_header_of_a_response_are_skipped(protocol):
    frame = bytes.fromhex("00000007 01 05 02 ffff abcd")
    assert read_response_header(frame, RequestHeader(19, 5, 7, None), protocol) == 9


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("transactional_id", [None, "", "x" * 200])
def test_the_acks_of_a_produce_request(schemas, version, acks, transactional_id):
    """They come first, after the transactional id of later versions; there is no schema of those before v3."""
    body = acks.to_bytes(2, signed=True)
    if version >= 3:
        codec = MessageCodec(schemas["ProduceRequest"], version)
        body = codec.write_head({"transactionalId": transactional_id, "acks": acks}, "acks")
    header = RequestHeader(0, version, 7, "app", 14)
    for length in range(len(body)):
        assert acks_of_produce(b"\xff" * 14 + body[:length], header) is None
    assert acks_of_produce(b"\xff" * 14 + body + b"\xff" * 9, header) == acks


@pytest.mark.parametrize("body", ["818002", "ffffffff07", "808080808080"])
def test_a_transactional_id_that_is_too_long_is_malformed(body):
    with pytest.raises(Malformed):
        acks_of_produce(bytes.fromhex(body), RequestHeader(0, 9, 7, None, 0))


def test_the_request_that_recognizes_a_gateway_is_one_that_any_broker_answers(protocol):
    frame = marked_request()
    header = read_request_header(frame[4:], protocol)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert header == RequestHeader(18, 3, 0, None, 11)
    message = protocol.request(18, 3).read(frame[4:], header.body)
    assert message == {"clientSoftwareName": "mutation-quota", "clientSoftwareVersion": "0"}
