"""The configuration of an application's client: librdkafka's settings, with the project's own among them.

A server that is a gateway is rejected: it requests decisions itself, so each change would be charged twice.
"""

import math
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from quota.admission.identity import request_topic
from quota.errors import BadInput
from quota.kafka.brokers.tokens import Token, call_function, credentials_in, fetch_token, to_token
from quota.kafka.librdkafka import login_config
from quota.records.request import ANONYMOUS, NO_CLIENT_ID
from quota.settings import Settings, load_settings
from quota.settings.connection import Connection, is_security
from quota.settings.security import SecuritySettings
from quota.settings.types import MAX_SECONDS
from quota.wire.headers import MARK, marked_request
from quota.wire.protocol import Address

PREFIX = "mutation.quota."
"""The prefix of the project's settings, as in `mutation.quota.client.user` or `mutation.quota.topics.requests`."""

TIME_LIMIT = "default.api.timeout.ms"
"""The time limit of a call; name and default are those of Kafka's own client."""

_TIME_LIMIT_SECONDS = 60.0

_TIMEOUT_SECONDS = 2.0
_MAX_BYTES = 64 * 1024
_CERTIFICATE = ("ssl.certificate.location", "ssl.key.location", "ssl.key.password")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """A client's identity, settings and connections."""

    settings: Settings
    """The project's settings; `kafka.bootstrap_servers` has the servers of the cluster that decides."""
    target: dict[str, Any] = field(repr=False)  # passwords may be among them
    """librdkafka's configuration for the cluster whose topics are changed."""
    control: dict[str, Any] = field(repr=False)
    """librdkafka's configuration for the cluster that decides."""
    user: str
    client_id: str
    time_limit_seconds: float = _TIME_LIMIT_SECONDS

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return the options in an application's configuration."""
        own = {name: value for name, value in config.items() if name.startswith(PREFIX)}
        target = {name: value for name, value in config.items() if name not in own and name != TIME_LIMIT}
        if "bootstrap.servers" not in target:
            raise BadInput("bootstrap.servers is missing: set the servers of the cluster whose topics to change")
        overrides = [f"kafka.bootstrap_servers={target['bootstrap.servers']}"]
        overrides += [f"{name.removeprefix(PREFIX)}={value}" for name, value in own.items()]
        settings = load_settings(overrides, environment={}, with_default_file=False)
        user = settings.client.user or _user_of(target, settings.kafka.timeout_seconds)
        client_id = str(target.get("client.id") or NO_CLIENT_ID)
        request_topic(user, settings.topics)  # raises if a user topic cannot have this name
        options = cls(settings, target, _control(settings, target), user, client_id)
        return replace(options, time_limit_seconds=_seconds(config[TIME_LIMIT])) if TIME_LIMIT in config else options


def _seconds(time_limit_ms: str | float) -> float:
    try:
        seconds = int(time_limit_ms) / 1000
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds <= MAX_SECONDS:
        raise BadInput(f"{TIME_LIMIT}: expected a number of ms from 1 to {MAX_SECONDS * 1000:,}, not {time_limit_ms!r}")
    return seconds


def _control(settings: Settings, target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration for the cluster that decides: the target's, unless `[kafka]` sets TLS or SASL."""
    if not SecuritySettings.model_fields.keys() & settings.kafka.model_fields_set:
        return {**target, "bootstrap.servers": settings.kafka.bootstrap_servers}
    plain = {name: value for name, value in target.items() if not is_security(name)}
    return {**plain, **login_config(settings.kafka.connection)}


def _user_of(target: Mapping[str, Any], timeout_seconds: float) -> str:
    """Return the user with which a client logs in at the target cluster."""
    if user := target.get("sasl.username"):
        return str(user)
    if not str(target.get("security.protocol", "")).upper().startswith("SASL"):
        return ANONYMOUS
    token = _token(target, timeout_seconds)
    if token and token.subject:
        return token.subject
    raise BadInput(
        "client.user is missing: set it to the principal by which brokers know this client, which "
        f"{'its token' if token else 'its configuration'} does not say"
    )


def _token(target: Mapping[str, Any], timeout_seconds: float) -> Token | None:
    if callback := target.get("oauth_cb"):
        return to_token(call_function(callback, "oauth_cb"))
    credentials = credentials_in(target)
    return fetch_token(credentials, timeout_seconds) if credentials else None


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
