"""Certificates at brokers for the gateway's clients: their names, their signatures, and how long a context is used."""

import asyncio
import ssl
import subprocess

import pytest

from jobs.gateway import issuer as module
from jobs.gateway.issuer import IssuedContexts
from quota.errors import BadInput
from quota.gateway.certificates import alternative_names_of, encode, name_of, sequence, subject_of
from quota.settings.connection import Security
from quota.settings.jobs import GatewaySettings
from tests.support.broker import Authority
from tests.unit.jobs.gateway.conftest import relink

HOST = "127.0.0.1"
NOW = 1_900_000_000.0
KEYS = {
    "EC": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"),
    "RSA": ("-newkey", "rsa:2048"),
    "Ed25519": ("-newkey", "ed25519"),
}


@pytest.fixture
def files(tmp_path, authority):
    """The CA of a gateway, as links that a test can replace."""
    certificate, key = tmp_path / "ca.pem", tmp_path / "ca.key"
    certificate.symlink_to(authority.own.path)
    key.symlink_to(authority.own.key)
    return certificate, key


def settings_of(certificate, key, **more):
    return GatewaySettings(
        ssl_client_auth="required",
        ssl_ca_location=str(certificate),
        ssl_certificate_location=str(certificate),
        ssl_key_location=str(key),
        ssl_issuer_certificate_location=str(certificate),
        ssl_issuer_key_location=str(key),
        **more,
    )


def contexts_of(authority, files):
    return IssuedContexts(settings_of(*files), lambda: Security("SSL", ssl_ca=authority.path.read_text()))


def der(certificate):
    return ssl.PEM_cert_to_DER_cert(certificate.path.read_text())


async def presented(context, trusted, server):
    """Return the certificate that a broker sees, which trusts the gateway's CA (DER)."""
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=trusted)
    broker.load_cert_chain(server.path, server.key)
    broker.verify_mode = ssl.CERT_REQUIRED
    seen = asyncio.get_running_loop().create_future()

    async def serve(_reader, writer):
        seen.set_result(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0, ssl=broker) as listening:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=context)
        await reader.read()
        writer.close()
    return await seen


@pytest.fixture(params=KEYS)
def issuer(request, tmp_path):
    """A CA with one kind of key."""
    key, chain = tmp_path / "key", tmp_path / "chain"
    kind = KEYS[request.param]
    made = ("openssl", "req", "-x509", *kind, "-nodes", "-out", chain, "-keyout", key, "-subj", "/CN=gateway CA")
    subprocess.run(made, check=True, capture_output=True)
    return chain, key


@pytest.mark.anyio
async def test_a_broker_sees_the_names_of_the_client_in_a_certificate_of_the_gateway(authority, issuer):
    client = der(authority.sign("both", "192.0.2.7", subject="/DC=org/O=Größe, Inc./OU=a+CN=x/emailAddress=a@b.org"))
    context = await contexts_of(authority, issuer).context(client)

    seen = await presented(context, issuer[0], authority.sign("broker", HOST))

    assert name_of(subject_of(seen)) == "1.2.840.113549.1.9.1=#16076140622e6f7267,CN=x+OU=a,O=Größe\\, Inc.,DC=org"
    assert subject_of(seen) == subject_of(client)
    assert alternative_names_of(seen) == alternative_names_of(client) != b""
    assert seen != client


def test_a_subject_is_copied_as_it_is_encoded(authority, files):
    """Neither the order in a set nor the type of a string is as another encoder would write it."""
    common, unit = (
        sequence(encode(6, bytes.fromhex(kind)), encode(tag, text))
        for kind, tag, text in (("550403", 0x14, b"x"), ("55040b", 0x0C, b"a"))
    )
    subject = sequence(encode(0x31, unit + common))
    client = sequence(sequence(encode(0xA0, encode(2, b"\2")), *[sequence()] * 4, subject, sequence()))
    made, _ = contexts_of(authority, files)._issuer.value.certificate(client, NOW)  # noqa: SLF001
    assert subject_of(ssl.PEM_cert_to_DER_cert(made[: made.index("-----END") + 26])) == subject
    assert (name_of(subject), alternative_names_of(client)) == ("OU=a+CN=x", b"")


@pytest.mark.anyio
async def test_a_context_is_used_again_until_half_of_its_certificate_is_over(authority, files, monkeypatch):
    clients = [der(authority.sign(name)) for name in ("one", "two")]
    contexts, times = contexts_of(authority, files), []
    monkeypatch.setattr(module.time, "time", lambda: times[-1])

    async def at(seconds, client=0):
        times.append(NOW + seconds)
        return await contexts.context(clients[client])

    first = await at(0)
    assert await at(0, client=1) is not first
    assert await at(299) is first
    second = await at(300)
    assert second is not first
    assert await at(599) is second


@pytest.mark.anyio
async def test_contexts_are_bounded_and_the_one_that_is_not_used_goes_first(authority, files, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CONTEXTS", 2)
    one, two, three = (der(authority.sign(name)) for name in ("one", "two", "three"))
    contexts = contexts_of(authority, files)
    first, second = await contexts.context(one), await contexts.context(two)
    assert await contexts.context(one) is first
    await contexts.context(three)
    assert await contexts.context(one) is first
    assert await contexts.context(two) is not second


@pytest.mark.anyio
async def test_a_renewed_issuer_signs_from_then_on_and_one_that_cannot_be_used_does_not(
    authority, files, tmp_path, caplog
):
    client, server = der(authority.sign("client")), authority.sign("broker", HOST)
    contexts, renewed = contexts_of(authority, files), Authority(tmp_path / "renewed")
    first = await contexts.context(client)

    relink(files[0], renewed.own.path)  # the key is still the earlier one
    contexts.refresh()
    assert "the earlier issuer remains in use" in caplog.text
    assert await contexts.context(client) is first
    relink(files[1], renewed.own.key)
    contexts.refresh()
    seen = await presented(await contexts.context(client), renewed.path, server)
    assert subject_of(seen) == subject_of(client)


def test_a_private_key_of_a_certificate_is_in_no_file_afterwards(authority, files, tmp_path, monkeypatch):
    """While it is in one, nobody else can read it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def noted(context, chain, key, password=None):
        modes.extend(path.stat().st_mode & 0o777 for path in (key, key.parent))
        load(context, chain, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted)
    before = sorted(tmp_path.iterdir())
    asyncio.run(contexts_of(authority, files).context(der(authority.sign("client"))))
    assert (modes, sorted(tmp_path.iterdir())) == ([0o600, 0o700], before)


@pytest.mark.parametrize("wrong", ["another key", "no key", "no certificate", "password"])
def test_an_issuer_that_cannot_be_used_is_one_line(authority, tmp_path, wrong):
    other, nothing = authority.sign("another"), tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    certificate = nothing if wrong == "no certificate" else authority.own.path
    key = {"another key": other.key, "no key": nothing}.get(wrong, authority.own.key)
    more = {"ssl_issuer_key_password": "hunter2"} if wrong == "password" else {}
    with pytest.raises(
        BadInput, match=r"^gateway.ssl_issuer_certificate_location .* (cannot be used|is not the cert)"
    ) as raised:
        IssuedContexts(settings_of(certificate, key, **more), lambda: Security("SSL"))
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)
