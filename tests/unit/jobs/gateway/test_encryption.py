"""TLS of the gateway: its certificate, its memory, and brokers that request clients' certificates."""

import asyncio
import socket
import ssl
import subprocess
import time

import pytest

from jobs.gateway import buffers
from jobs.gateway.encryption import make_encryption
from jobs.gateway.issuer import Issuer
from quota.errors import BadInput
from quota.settings import load_settings
from quota.settings.connection import Security
from tests.support.broker import CERTIFICATE_PEM, Authority, Certificate
from tests.support.waiting import eventually
from tests.unit.jobs.gateway.conftest import hang_up, relink, unchanging

HOST = "127.0.0.1"


async def serial_seen(server, authority):
    """Return the serial number of the certificate that a client sees."""
    client = ssl.create_default_context(cafile=str(authority.path))
    async with await asyncio.start_server(hang_up, HOST, 0, ssl=server) as listening:
        _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=client)
        serial = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return serial


def encryption_settings(**given):
    return load_settings([f"gateway.{name}={value}" for name, value in given.items()], environment={}).gateway


def encryption_of(brokers=Security(), **given):  # noqa: B008 a value
    return make_encryption(encryption_settings(**given), unchanging(brokers))


def test_a_renewed_certificate_is_used_and_one_that_cannot_be_used_is_not(certificates, tmp_path, caplog):
    """The certificate, its key and the password of the key are replaced one after the other."""
    authority, _ = certificates
    chain, key, password = paths = [tmp_path / name for name in ("chain.pem", "key.pem", "password")]
    targets = []
    for word in ("first", "second"):
        signed = authority.sign(f"encrypted-{word}", HOST, word)
        (tmp_path / word).write_text(word)
        targets.append((signed.path, signed.key, tmp_path / word))
    for path, target in zip(paths, targets[0], strict=True):
        relink(path, target)
    files = {"ssl_certificate_location": chain, "ssl_key_location": key, "ssl_key_password": f"file:{password}"}
    encryption = encryption_of(**files)
    seen = [asyncio.run(serial_seen(encryption.clients, authority))]
    for path, target in zip(paths, targets[1], strict=True):
        relink(path, target)
        encryption.refresh()
        seen.append(asyncio.run(serial_seen(encryption.clients, authority)))
    assert "the earlier certificate remains in use" in caplog.text
    key.unlink()
    encryption.refresh()
    seen.append(asyncio.run(serial_seen(encryption.clients, authority)))
    assert seen[0] == seen[1] == seen[2] != seen[3] == seen[4]
    with pytest.raises(BadInput, match="no such file"):
        encryption_of(**files)


@pytest.mark.parametrize("days", ["1", "20000"])
def test_the_end_of_the_certificate_is_known_and_that_of_a_renewed_one(certificates, tmp_path, days):
    """Certificates write times after 2049 differently."""
    _, first = certificates
    files = chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    for file, content in zip(files, (first.path, first.key), strict=True):
        file.write_bytes(content.read_bytes())
    encryption = encryption_of(ssl_certificate_location=chain, ssl_key_location=key)
    ends = [encryption.certificate.value.ends_at]
    made = ("-newkey", "rsa:2048", "-nodes", "-subj", "/CN=renewed", "-days", days, "-out", chain, "-keyout", key)
    subprocess.run(["openssl", "req", "-x509", *made], check=True, capture_output=True)
    encryption.refresh()
    ends.append(encryption.certificate.value.ends_at)

    def told(file):
        shown = ["openssl", "x509", "-noout", "-enddate", "-in", file]
        return ssl.cert_time_to_seconds(subprocess.check_output(shown, text=True).strip().partition("=")[2])

    assert ends == [told(first.path), told(chain)]


@pytest.fixture(scope="module")
def clients(certificates, tmp_path_factory):
    """Certificates that a gateway takes, and some that it rejects; and the settings of a gateway that requires them."""
    authority, own = certificates
    folder = tmp_path_factory.mktemp("clients")
    given = {
        "ssl_certificate_location": own.path,
        "ssl_key_location": own.key,
        "ssl_client_auth": "required",
        "ssl_ca_location": authority.path,
        "ssl_issuer_certificate_location": authority.own.path,
        "ssl_issuer_key_location": authority.own.key,
    }
    good = authority.sign("alice", subject="/O=Example/OU=users/CN=Alice")
    expired = Certificate(folder / "expired.pem", folder / "expired.key")
    issuer = Issuer.read(encryption_settings(**given))
    der = ssl.PEM_cert_to_DER_cert(good.path.read_text())
    for path, text in zip((expired.path, expired.key), issuer.certificate(der, time.time() - 3600), strict=True):
        path.write_text(text)
    foreign = Authority(folder / "foreign").sign("alice", subject="/O=Example/OU=users/CN=Alice")
    return given, {"good": good, "expired": expired, "foreign": foreign, "none": None}


SSL = Security("SSL")


def connect_twice(address, client, version):
    """Return whether a client resumes its session; or the alert by which it is rejected."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode, context.maximum_version = False, ssl.CERT_NONE, version
    if client:
        context.load_cert_chain(client.path, client.key)
    session = None
    try:
        for _ in range(2):
            with socket.create_connection(address) as plain, context.wrap_socket(plain, session=session) as tls:
                tls.recv(1)
                session = tls.session
                is_resumed = tls.session_reused
    except ssl.SSLError as error:
        return error.reason
    return is_resumed


async def user_seen(encryption, client, version=ssl.TLSVersion.TLSv1_3):
    """Return what a client sees, and the users that the gateway sees."""
    users = []

    async def greet(_reader, writer):
        users.append(encryption.user_of(writer.get_extra_info("ssl_object").getpeercert(binary_form=True)))
        writer.write(b"x")
        writer.close()

    async with await asyncio.start_server(greet, HOST, 0, ssl=encryption.clients) as listening:
        return await asyncio.to_thread(connect_twice, listening.sockets[0].getsockname(), client, version), *users


UNKNOWN, EXPIRED = "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_EXPIRED"


@pytest.mark.parametrize(
    ("auth", "client", "version", "seen"),
    [
        ("required", "good", ssl.TLSVersion.TLSv1_2, (True, "alice", "alice")),
        ("required", "good", ssl.TLSVersion.TLSv1_3, (False, "alice", "alice")),
        ("required", "expired", ssl.TLSVersion.TLSv1_2, (EXPIRED,)),
        ("required", "expired", ssl.TLSVersion.TLSv1_3, (EXPIRED,)),
        ("required", "foreign", ssl.TLSVersion.TLSv1_3, (UNKNOWN,)),
        ("required", "none", ssl.TLSVersion.TLSv1_2, ("SSLV3_ALERT_HANDSHAKE_FAILURE",)),
        ("required", "none", ssl.TLSVersion.TLSv1_3, ("TLSV13_ALERT_CERTIFICATE_REQUIRED",)),
        ("requested", "good", ssl.TLSVersion.TLSv1_3, (False, "alice", "alice")),
        ("requested", "expired", ssl.TLSVersion.TLSv1_3, (EXPIRED,)),
        ("requested", "foreign", ssl.TLSVersion.TLSv1_3, (UNKNOWN,)),
        ("requested", "none", ssl.TLSVersion.TLSv1_3, (False, "ANONYMOUS", "ANONYMOUS")),
    ],
)
def test_a_client_is_whom_its_certificate_names_or_is_rejected_by_an_alert(clients, auth, client, version, seen):
    """A session of TLS 1.2 can be resumed, as at a broker; one of TLS 1.3 outlives no certificate."""
    given, known = clients
    rules = "RULE:^CN=(.*?),OU=users.*$/$1/L"
    encryption = encryption_of(SSL, **given | {"ssl_client_auth": auth}, ssl_principal_mapping_rules=rules)
    assert asyncio.run(user_seen(encryption, known[client], version)) == seen


def test_a_name_that_no_rule_applies_to_is_rejected_and_without_certificates_there_is_none(clients):
    given, known = clients
    der = ssl.PEM_cert_to_DER_cert(known["good"].path.read_text())
    encryption = encryption_of(SSL, **given, ssl_principal_mapping_rules="RULE:^CN=bob.*$/bob/")
    with pytest.raises(BadInput, match=r"^no rule .* applies to 'CN=Alice,OU=users,O=Example'"):
        encryption.user_of(der)
    with pytest.raises(BadInput, match="the subject of its certificate cannot be read"):
        encryption.user_of(der[:50])
    assert encryption_of(Security("SASL_SSL"), **given).user_of(der) is None
    assert encryption_of().user_of(None) is None


@pytest.mark.parametrize(
    ("address", "protocol", "warned"),
    [
        ("192.0.2.1", "SASL_SSL", True),
        ("kafka.example.org", "SASL_PLAINTEXT", True),
        ("127.0.0.1", "SASL_SSL", False),
        ("::1", "SASL_SSL", False),
        ("localhost", "SASL_SSL", False),
        ("192.0.2.1", "PLAINTEXT", False),
    ],
)
def test_passwords_that_clients_send_in_plaintext_are_warned_of(certificates, caplog, address, protocol, warned):
    """With a certificate none are."""
    encryption_of(Security(protocol), address=address)
    assert ("send passwords and tokens to" in caplog.text) == warned
    caplog.clear()
    own = certificates[1]
    encryption_of(Security(protocol), address=address, ssl_certificate_location=own.path, ssl_key_location=own.key)
    assert not caplog.text


def test_the_ca_of_clients_is_read_again_when_it_changes(certificates, clients, tmp_path):
    given, known = clients
    ca = tmp_path / "ca.pem"
    relink(ca, certificates[0].path)
    encryption = encryption_of(SSL, **given | {"ssl_ca_location": ca})
    seen = [asyncio.run(user_seen(encryption, known["foreign"]))]
    relink(ca, known["foreign"].path)  # a certificate that is trusted itself, as Java's trust stores may have
    encryption.refresh()
    seen += [asyncio.run(user_seen(encryption, known[name])) for name in ("foreign", "good")]
    assert seen == [(UNKNOWN,), (False, *["CN=Alice,OU=users,O=Example"] * 2), (UNKNOWN,)]


@pytest.mark.parametrize("broken", ["no content", "other characters", "key"])
def test_files_that_are_broken_for_a_moment_do_not_end_the_gateway(certificates, clients, tmp_path, caplog, broken):
    """What was read before remains in use."""
    (authority, _), (given, _) = certificates, clients
    file = tmp_path / "ca.pem"
    file.write_text(authority.path.read_text())
    to_brokers = load_settings(["kafka.security_protocol=SSL", f"kafka.ssl_ca_location={file}"], environment={}).kafka
    settings = encryption_settings(**given | {"ssl_ca_location": file, "ssl_issuer_certificate_location": file})
    encryption = make_encryption(settings, to_brokers)
    issuer = encryption.issued._issuer  # noqa: SLF001
    before = issuer.value
    content = ssl.PEM_cert_to_DER_cert(file.read_text())
    start = content.index(bytes.fromhex("034200")) + 3  # a point of the curve
    damaged = content[:start] + bytes(65) + content[start + 65 :]
    texts = {"no content": "", "other characters": f"{ssl.PEM_HEADER}\nä\n{ssl.PEM_FOOTER}\n"}
    file.write_text(texts.get(broken, ssl.DER_cert_to_PEM_cert(damaged)))
    encryption.refresh()
    assert issuer.value is before
    assert "the earlier issuer remains in use: gateway.ssl_issuer_certificate_location" in caplog.text


@pytest.mark.parametrize("issues", [False, True], ids=["as itself", "for clients"])
def test_what_connections_to_brokers_use_is_read_again_when_it_changes(certificates, clients, tmp_path, caplog, issues):
    """A CA that cannot be used is not, and a client's context that is remembered is made again."""
    (authority, own), (given, known) = certificates, clients
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    broker.load_cert_chain(own.path, own.key)
    ca, nonsense = tmp_path / "ca.pem", tmp_path / "nonsense.pem"
    nonsense.write_text(CERTIFICATE_PEM)
    relink(ca, known["foreign"].path)
    to_brokers = load_settings(["kafka.security_protocol=SSL", f"kafka.ssl_ca_location={ca}"], environment={}).kafka
    encryption = make_encryption(encryption_settings(**given if issues else {}), to_brokers)
    client = ssl.PEM_cert_to_DER_cert(known["good"].path.read_text())

    async def is_trusted():
        context = await encryption.context_for(client)
        async with await asyncio.start_server(hang_up, HOST, 0, ssl=broker) as listening:
            try:
                _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=context)
            except ssl.SSLCertVerificationError:
                return False
            writer.close()
            return True

    seen = [asyncio.run(is_trusted())]
    for target in (authority.path, nonsense):
        relink(ca, target)
        encryption.refresh()
        seen.append(asyncio.run(is_trusted()))
    assert seen == [False, True, True]
    assert "the earlier security of connections to brokers remains in use: the certificates for" in caplog.text


@pytest.mark.parametrize(
    ("brokers", "missing", "error"),
    [
        (SSL, "ssl_issuer", "all clients would be ANONYMOUS at the brokers"),
        (Security("PLAINTEXT"), "ssl_issuer", "all clients would be ANONYMOUS at the brokers"),
        (Security("SSL", ssl_certificate="x"), "ssl_issuer", "all clients would become the principal of the gateway's"),
        (
            Security("SASL_PLAINTEXT"),
            "",
            "ssl_issuer_certificate_location needs TLS to the brokers, not SASL_PLAINTEXT",
        ),
    ],
)
def test_brokers_that_would_not_see_who_the_clients_are_fail_the_start(clients, brokers, missing, error):
    given = {name: value for name, value in clients[0].items() if not (missing and name.startswith(missing))}
    with pytest.raises(BadInput, match=error):
        encryption_of(brokers, **given)


def test_files_that_cannot_be_used_are_one_line(clients):
    with pytest.raises(BadInput, match=r"^gateway.ssl_ca_location: /nowhere: No such file or directory$"):
        encryption_of(SSL, **clients[0] | {"ssl_ca_location": "/nowhere"})
    with pytest.raises(BadInput, match=r"^the gateway's own certificate cannot be read: "):
        encryption_of(Security("SSL", ssl_certificate="nonsense"), **clients[0])


def test_connections_over_tls_share_one_buffer_and_no_data(certificates, monkeypatch):
    """`asyncio` has one of 256 KiB for each; the attribute is not public. A few receive much of it at once."""
    authority, own = certificates
    encryption = encryption_of(ssl_certificate_location=own.path, ssl_key_location=own.key)

    async def echo(reader, writer):
        while data := await reader.read(100_000):
            writer.write(data)
        writer.close()

    async def echoed():
        client = ssl.create_default_context(cafile=str(authority.path))
        async with await asyncio.start_server(echo, HOST, 0, ssl=encryption.clients) as listening:
            address = listening.sockets[0].getsockname()
            opened = [await asyncio.open_connection(*address, ssl=client) for _ in range(3)]
            sent = [bytes([number]) * 300_000 for number, _ in enumerate(opened)]
            for (_, writer), data in zip(opened, sent, strict=True):
                writer.write(data)
            assert list(await asyncio.gather(*(reader.readexactly(300_000) for reader, _ in opened))) == sent
            assert len(buffers._wide) == 2  # noqa: SLF001
            for _, writer in opened:
                writer.close()
            await eventually(lambda: not buffers._wide)  # noqa: SLF001
            return [writer.transport._ssl_protocol._ssl_buffer for _, writer in opened]  # noqa: SLF001

    monkeypatch.setattr(buffers, "_MAX_WIDE", 2)
    first, *others = asyncio.run(echoed())
    assert len(first) == 128 * 1024
    assert all(other is first for other in others)
