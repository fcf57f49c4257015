"""TLS of the gateway: its certificate, its memory, and brokers that request clients' certificates."""

import asyncio
import ssl

import pytest

from jobs.gateway.encryption import certificate_requests, make_encryption
from quota.errors import BadInput
from quota.settings import load_settings
from quota.settings.security.clients import Security
from tests.support.broker import Authority

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls") / "authority")
    return authority, authority.sign("broker", HOST)


async def serve(_reader, writer):
    writer.close()


async def handshake(server, client):
    """Connect once, as the gateway does."""
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


async def serial_seen(server, authority):
    """Return the serial number of the certificate that a client sees."""
    client = ssl.create_default_context(cafile=str(authority.path))
    async with await asyncio.start_server(serve, HOST, 0, ssl=server) as listening:
        _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=client)
        serial = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return serial


def encryption_of(brokers=Security(), **given):  # noqa: B008 a value
    settings = load_settings([f"gateway.{name}={value}" for name, value in given.items()], environment={})
    return make_encryption(settings.gateway, brokers)


def test_a_renewed_certificate_is_used_and_one_that_cannot_be_used_is_not(certificates, tmp_path, caplog):
    """As Kubernetes replaces them: the files are links, and their targets change."""
    authority, first = certificates
    second = authority.sign("renewed", HOST)
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"

    def replace(path, target):
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    replace(chain, first.path)
    replace(key, first.key)
    encryption = encryption_of(ssl_certificate_location=chain, ssl_key_location=key)
    seen = [asyncio.run(serial_seen(encryption.clients, authority))]
    replace(chain, second.path)  # the key is still that of the first
    encryption.refresh()
    assert "the earlier certificate remains in use" in caplog.text
    seen.append(asyncio.run(serial_seen(encryption.clients, authority)))
    replace(key, second.key)
    encryption.refresh()
    seen.append(asyncio.run(serial_seen(encryption.clients, authority)))
    key.unlink()
    encryption.refresh()
    seen.append(asyncio.run(serial_seen(encryption.clients, authority)))
    assert seen[0] == seen[1] != seen[2] == seen[3]
    with pytest.raises(BadInput, match="no such file"):
        encryption_of(ssl_certificate_location=chain, ssl_key_location=key)


def test_a_password_that_changes_after_its_key_is_read_again(certificates, tmp_path):
    authority, _ = certificates
    chain, key, password = (tmp_path / name for name in ("chain.pem", "key.pem", "password"))
    renewed = [authority.sign(f"encrypted-{word}", HOST, word) for word in ("first", "second")]

    def replace(path, content):
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    for path, content in (
        (chain, renewed[0].path.read_bytes()),
        (key, renewed[0].key.read_bytes()),
        (password, b"first"),
    ):
        replace(path, content)
    files = {"ssl_certificate_location": chain, "ssl_key_location": key, "ssl_key_password": f"file:{password}"}
    encryption = encryption_of(**files)
    seen = [asyncio.run(serial_seen(encryption.clients, authority))]
    for path, content in (
        (chain, renewed[1].path.read_bytes()),
        (key, renewed[1].key.read_bytes()),
        (password, b"second"),
    ):
        replace(path, content)
        encryption.refresh()
        seen.append(asyncio.run(serial_seen(encryption.clients, authority)))
    assert seen[0] == seen[1] == seen[2] != seen[3]


def test_a_connection_over_tls_has_a_buffer_of_one_record(certificates):
    """`asyncio` has 256 KiB for each; the attribute is not public."""
    authority, own = certificates
    encryption = encryption_of(ssl_certificate_location=own.path, ssl_key_location=own.key)

    async def buffer_bytes():
        client = ssl.create_default_context(cafile=str(authority.path))
        async with await asyncio.start_server(serve, HOST, 0, ssl=encryption.clients) as listening:
            _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=client)
            size = len(writer.transport._ssl_protocol._ssl_buffer)  # noqa: SLF001
            writer.close()
            return size

    assert asyncio.run(buffer_bytes()) == 16 * 1024
