"""A look at the brokers before clients come: the addresses that they tell, asked on the listener that clients will use.

librdkafka cannot ask this: once it has learnt an address it goes there, and the gateway does not listen yet.
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence

from scramp import ScramClient, ScramException

from jobs.gateway.encryption import certificate_requests
from quota.errors import BadInput, ClusterError, MutationQuotaError
from quota.gateway.addresses import Address
from quota.gateway.api_keys import ApiKey
from quota.gateway.mutations.existing import METADATA_VERSION
from quota.settings.connection import Security
from quota.wire.codec import Message
from quota.wire.headers import RequestHeader, read_response_header, write_request
from quota.wire.protocol import Protocol

_log = logging.getLogger(__name__)

_CLIENT_ID = "mutation-quota-gateway"
_LENGTH_BYTES = 4
_MAX_ANSWER_BYTES = 16 * 1024 * 1024


async def told_addresses(
    brokers: Sequence[Address], security: Security, context: ssl.SSLContext | None, protocol: Protocol, seconds: float
) -> dict[int, Address]:
    """Return the addresses that brokers tell their clients, by node id.

    Args:
        brokers: those to ask; it is enough if one of them answers.
        security: the gateway's own credentials for them.
        context: TLS, if they require it.
        protocol: the codecs.
        seconds: the time limit for each.

    Raises:
        ClusterError: none of them answers, or they do not accept the credentials.
        BadInput: a broker is too old, or clients would lose their identity.
    """
    told: dict[int, Address] = {}
    failures = []
    for host, port in brokers:
        try:
            async with asyncio.timeout(seconds):
                if context is None or security.has_sasl:
                    told |= await _ask((host, port), security, context, protocol)
                else:
                    told |= await _ask_unless_certificates_count((host, port), security, context, protocol)
        except (OSError, EOFError, ScramException, MutationQuotaError) as error:
            if isinstance(error, BadInput):
                raise
            reason = "no answer" if isinstance(error, TimeoutError | EOFError) else str(error)
            failures.append(f"cannot ask {host}:{port} which addresses clients are told: {reason}")
    if not told:
        raise ClusterError("; ".join(failures))
    for failure in failures:
        _log.warning("%s", failure)
    return told


async def _ask(
    broker: Address, security: Security, context: ssl.SSLContext | None, protocol: Protocol
) -> dict[int, Address]:
    reader, writer = await asyncio.open_connection(*broker, ssl=context, server_hostname=broker[0] if context else None)
    try:
        calls = _Calls(reader, writer, protocol)
        known = {
            each["apiKey"]: each["maxVersion"] for each in (await calls.call(ApiKey.API_VERSIONS, 0, {}))["apiKeys"]
        }
        if known.get(ApiKey.METADATA, 0) < METADATA_VERSION:
            raise BadInput(
                f"the broker at {broker[0]}:{broker[1]} is too old for the gateway; it needs Kafka 3.1 or newer"
            )
        if security.has_sasl:
            await _authenticate(calls, security)
        answer = await calls.call(ApiKey.METADATA, METADATA_VERSION, {"topics": [], "allowAutoTopicCreation": False})
        return {each["nodeId"]: (each["host"], each["port"]) for each in answer["brokers"]}
    finally:
        writer.close()


async def _ask_unless_certificates_count(
    broker: Address, security: Security, context: ssl.SSLContext, protocol: Protocol
) -> dict[int, Address]:
    """Return the addresses.

    Raises:
        BadInput: the listener requests clients' certificates, by which it would know them.
    """
    refused = BadInput(
        f"gateway: the listener at {broker[0]}:{broker[1]} requests clients' certificates (ssl.client.auth), which "
        "cannot be passed on; use a listener with SASL_SSL for the gateway, or set ssl.client.auth=none there if all "
        "clients may be ANONYMOUS (docs/gateway.md)"
    )
    with certificate_requests(context) as requests:
        try:
            found = await _ask(broker, security, context, protocol)
        except (OSError, EOFError, MutationQuotaError):
            if requests:
                raise refused from None
            raise
    if requests:
        raise refused
    return found


async def _authenticate(calls: "_Calls", security: Security) -> None:
    handshake = await calls.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": security.sasl_mechanism})
    if handshake["errorCode"]:
        raise ClusterError(f"{security.sasl_mechanism} is not enabled there, but {', '.join(handshake['mechanisms'])}")
    if security.sasl_mechanism == "PLAIN":
        await _send(calls, f"\0{security.sasl_username}\0{security.sasl_password}".encode())
        return
    client = ScramClient([security.sasl_mechanism], security.sasl_username, security.sasl_password)
    client.set_server_first((await _send(calls, client.get_client_first().encode())).decode())
    client.set_server_final((await _send(calls, client.get_client_final().encode())).decode())


async def _send(calls: "_Calls", auth_bytes: bytes) -> bytes:
    """Send a message of the SASL exchange, and return the broker's."""
    answer = await calls.call(ApiKey.SASL_AUTHENTICATE, 1, {"authBytes": auth_bytes})
    if answer["errorCode"]:
        raise ClusterError(answer["errorMessage"] or f"authentication failed (error {answer['errorCode']})")
    return bytes(answer["authBytes"])


class _Calls:
    """Requests to a broker, one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: Protocol) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = protocol

    async def call(self, key: ApiKey, version: int, message: Message) -> Message:
        """Send a request, and return its answer."""
        header = RequestHeader(key, version, 0, _CLIENT_ID)
        body = self._protocol.request(key, version).write(message)
        self._writer.write(write_request(header, body, self._protocol))
        length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), signed=True)
        if not 0 < length <= _MAX_ANSWER_BYTES:
            raise ClusterError("this is not a broker, or its listener has another security protocol")
        frame = await self._reader.readexactly(length)
        found = read_response_header(frame, header, self._protocol)
        if found is None:
            raise ClusterError("an answer that ends within its header")
        return self._protocol.response(key, version).read(frame, found.body)
