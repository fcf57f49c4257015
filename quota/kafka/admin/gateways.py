"""Recognizes a gateway, which requests decisions itself: with those of a client, a change would be charged twice."""

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from quota.errors import BadInput
from quota.settings.connection import Connection
from quota.wire.gateway_mark import MARK, marked_request
from quota.wire.protocol import Address

_TIMEOUT_SECONDS = 2.0
_MAX_BYTES = 64 * 1024
_CERTIFICATE = ("ssl.certificate.location", "ssl.key.location", "ssl.key.password")


def check_no_gateway(config: Mapping[str, Any]) -> None:
    """Check that the servers of a librdkafka configuration are no gateways; the first one that answers shows it."""
    for server in str(config.get("bootstrap.servers", "")).split(","):
        with suppress(OSError, ValueError):  # the client itself reports what is wrong with a server
            if _is_gateway(Connection(server).addresses[0], config):
                raise BadInput(
                    f"{server} is a gateway, which requests decisions itself, so each change would be charged twice: "
                    "use the brokers' addresses, or a client of Kafka's without decisions of its own"
                )
            return


def _is_gateway(address: Address, config: Mapping[str, Any]) -> bool:
    with socket.create_connection(address, _TIMEOUT_SECONDS) as plain:
        context = _tls_context(config)
        with plain if context is None else context.wrap_socket(plain, server_hostname=address[0]) as connection:
            connection.sendall(marked_request())
            received = b""
            while MARK not in received and len(received) < _MAX_BYTES:
                data = connection.recv(_MAX_BYTES)
                if not data:
                    break
                received += data
                if len(received) >= int.from_bytes(received[:4]) + 4:
                    break
    return MARK in received


def _tls_context(config: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context of a connection that sends no secrets, and so trusts every certificate."""
    if "SSL" not in str(config.get("security.protocol", "")).upper():
        return None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key, password = (config.get(name) for name in _CERTIFICATE)
    if certificate and key:
        context.load_cert_chain(certificate, key, password)
    return context
