"""The requests on their way to a broker, and their answers."""

import struct

import pytest

from quota.gateway.context import ChannelError
from quota.gateway.pipeline import Pipeline
from quota.wire.headers import RequestHeader


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
