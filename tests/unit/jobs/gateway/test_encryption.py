"""Detection, in the TLS handshake, of brokers that request clients' certificates."""

import asyncio
import ssl

import pytest

from jobs.gateway.encryption import certificate_requests
from tests.support.broker import Authority

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "authority")
    return authority, authority.sign("broker", HOST)


async def handshake(server, client):
    """Connect once, as the gateway does."""

    async def serve(_reader, writer):
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0, ssl=server) as listening:
        try:
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=client)
            await reader.read()
            writer.close()
        except OSError:  # without a certificate where one is required
            pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("auth", "requested"), [(ssl.CERT_NONE, False), (ssl.CERT_OPTIONAL, True), (ssl.CERT_REQUIRED, True)]
)
def test_a_request_for_a_certificate_is_seen(certificates, version, auth, requested):
    """It is seen whether or not the connection succeeds, and only if it is requested."""
    authority, own = certificates
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(own.path, own.key)
    server.load_verify_locations(authority.path)
    server.verify_mode, server.maximum_version = auth, version
    client = ssl.create_default_context(cafile=str(authority.path))
    with certificate_requests(client) as requests:
        asyncio.run(handshake(server, client))
    assert bool(requests) == requested
    seen = len(requests)
    asyncio.run(handshake(server, client))
    assert len(requests) == seen
