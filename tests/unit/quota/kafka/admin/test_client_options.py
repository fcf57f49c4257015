"""A client recognizes a gateway before it requests a decision; a server that is none, or is broken, is left to it."""

import pytest

from quota.errors import BadInput
from quota.kafka.admin.client_options import check_no_gateway
from quota.wire.headers import MARK, marked_request
from tests.support.answering import answering


def framed(body):
    return len(body).to_bytes(4) + body


def test_a_gateway_is_recognized_and_named_also_behind_other_servers():
    marked = framed(b"\0" * 300 + MARK + b"\0")
    with answering(marked[:200], marked[200:320], marked[320:]) as (port, received):
        with pytest.raises(BadInput, match=rf"^PLAINTEXT://localhost:{port} is a gateway, .* charged twice: use the "):
            check_no_gateway({"bootstrap.servers": f"127.0.0.1:1,PLAINTEXT://localhost:{port}"})
        assert received == [marked_request()]


@pytest.mark.parametrize("answer", [[], [framed(b"\0" * 300)], [b"HTTP/1.1 400 Bad Request\r\n\r\n"]])
def test_a_server_without_the_mark_is_no_gateway(answer):
    with answering(*answer) as (port, received):
        check_no_gateway({"bootstrap.servers": f"127.0.0.1:{port}"})
        assert received == [marked_request()]


def test_a_server_that_does_not_speak_tls_is_no_gateway():
    with answering(framed(MARK)) as (port, received):
        check_no_gateway({"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "ssl"})
        assert [data[:2] for data in received] == [b"\x16\x03"]  # a handshake of TLS


@pytest.mark.parametrize("servers", ["", "no such host:9092", "127.0.0.1:1", "127.0.0.1:port", "[::1]:1", ","])
def test_addresses_that_cannot_be_reached_are_left_to_the_client(servers):
    with answering(framed(MARK)) as (port, _), pytest.raises(BadInput, match="is a gateway"):
        check_no_gateway({"bootstrap.servers": f"{servers},127.0.0.1:{port}"})
