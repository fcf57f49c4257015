"""A connection to a broker: TLS, login, and calls, one at a time."""

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from scramp import ScramClient, ScramException

from quota.errors import ClusterError, MutationQuotaError
from quota.kafka.brokers.tokens import Token, TokenFunction, fetch_token, to_token
from quota.settings.connection import Security
from quota.wire.access_tokens import write_bearer_message
from quota.wire.headers import RequestHeader, read_response_header, write_request
from quota.wire.message_codec import MAX_ELEMENTS, Message
from quota.wire.protocol import Address, ApiKey, Protocol

FAILURES = (OSError, EOFError, UnicodeError, ScramException, MutationQuotaError)
"""The exceptions of a connection, a login and a call. TimeoutError is an OSError; an invalid host is a UnicodeError."""

_LENGTH_BYTES = 4
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""A hundred thousand quotas of long names are some tens of megabytes."""

_TOKEN_SECONDS = 5.0
_accepted: dict[Security, Token] = {}
"""The token that a broker accepted last, by the login: token servers limit requests, and some charge for them."""


def tls_context(security: Security) -> ssl.SSLContext | None:
    """Return the TLS context of connections to brokers; None for plaintext."""
    if not security.has_tls:
        return None
    context = ssl.create_default_context(cadata=security.ssl_ca or None)
    if security.ssl_endpoint_identification == "none":
        context.check_hostname = False
    if security.ssl_certificate:
        with tempfile.TemporaryDirectory() as folder:  # the module reads only files
            chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
            chain.write_text(security.ssl_certificate)
            key.touch(0o600)
            key.write_text(security.ssl_key)
            context.load_cert_chain(chain, key, security.ssl_key_password or None)
    return context


class BrokerCalls:
    """Requests to a broker, one at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: Protocol, client_id: str
    ) -> None:
        self.versions: Mapping[int, int] = {}
        """The last version of each API that the broker knows, by its key."""
        self._reader = reader
        self._writer = writer
        self._protocol = protocol
        self._client_id = client_id

    async def call(self, key: int, version: int, message: Message, max_elements: int = MAX_ELEMENTS) -> Message:
        """Send a request, and return its response."""
        header = RequestHeader(key, version, 0, self._client_id)
        body = self._protocol.request(key, version).write(message)
        self._writer.write(write_request(header, body, self._protocol))
        length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), signed=True)
        if not 0 < length <= _MAX_RESPONSE_BYTES:
            raise ClusterError("this is not a broker, or its listener has another security protocol")
        frame = await self._reader.readexactly(length)
        begin = read_response_header(frame, header, self._protocol)
        return self._protocol.response(key, version).read(frame, begin, max_elements)

    def version_of(self, key: int) -> int | None:
        """Return the last version of an API that the broker and the protocol know; None if the broker has none."""
        known = self.versions.get(key)
        return None if known is None else min(known, self._protocol.apis[key].max_version)


@asynccontextmanager
async def connected(
    broker: Address, context: ssl.SSLContext | None, protocol: Protocol, client_id: str = "mutation-quota"
) -> AsyncIterator[BrokerCalls]:
    """Connect to a broker for the duration of the block, and request its API versions; does not authenticate."""
    reader, writer = await asyncio.open_connection(*broker, ssl=context, server_hostname=broker[0] if context else None)
    try:
        calls = BrokerCalls(reader, writer, protocol, client_id)
        response = await calls.call(ApiKey.API_VERSIONS, 0, {})
        calls.versions = {api["apiKey"]: api["maxVersion"] for api in response["apiKeys"]}
        yield calls
    finally:
        writer.close()


async def log_in(calls: BrokerCalls, security: Security) -> None:
    """Authenticate with SASL, if the security settings require it."""
    if not security.has_sasl:
        return
    if not security.sasl_mechanism:
        raise ClusterError(
            "sasl_mechanism is empty, and librdkafka's properties do not apply to this connection: set sasl_mechanism"
        )
    handshake = await calls.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": security.sasl_mechanism})
    if handshake["errorCode"]:
        raise ClusterError(
            f"{security.sasl_mechanism} is not enabled on the broker; enabled are {', '.join(handshake['mechanisms'])}"
        )
    if security.oauth or security.token_function:
        token = _accepted.get(security)
        if token is None or time.time() > token.reusable_until:
            token = await asyncio.to_thread(_token_of, security)
        try:
            await _send_token(calls, token)
        except ClusterError:  # it may have been revoked
            _accepted.pop(security, None)
            raise
        _accepted[security] = token
        return
    if security.sasl_mechanism == "PLAIN":
        await _send(calls, f"\0{security.sasl_username}\0{security.sasl_password}".encode())
        return
    try:
        client = ScramClient([security.sasl_mechanism], security.sasl_username, security.sasl_password)
        client.set_server_first((await _send(calls, client.get_client_first().encode())).decode())
        client.set_server_final((await _send(calls, client.get_client_final().encode())).decode())
    except ValueError as error:  # not UTF-8, not base64, or not a number
        raise ClusterError(f"the response to the login by {security.sasl_mechanism} is malformed: {error}") from None


def _token_of(security: Security) -> Token:
    if security.oauth:
        return fetch_token(security.oauth, _TOKEN_SECONDS)
    return to_token(TokenFunction(security)())


async def _send_token(calls: BrokerCalls, token: Token) -> None:
    problem = await _send(calls, write_bearer_message(token.value, token.extensions))
    if problem:  # the broker sends the reason as text once this is acknowledged
        await _send(calls, b"\x01")
        raise ClusterError(f"the token is not accepted: {problem.decode(errors='replace')}")


async def _send(calls: BrokerCalls, auth_bytes: bytes) -> bytes:
    """Send a message of the SASL exchange, and return the broker's message."""
    response = await calls.call(ApiKey.SASL_AUTHENTICATE, 1, {"authBytes": auth_bytes})
    if response["errorCode"]:
        raise ClusterError(response["errorMessage"] or f"authentication failed (error {response['errorCode']})")
    return bytes(response["authBytes"])
