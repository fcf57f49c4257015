"""Clients with certificates: at the brokers each has its own principal, which is also the user that is charged."""

import ssl
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from jobs.gateway.issuer import Issuer
from jobs.sandbox.broker import HOST
from quota.records.entity import QuotaEntity
from tests.support.broker import GATEWAY_RULES, Authority, Certificate
from tests.support.deployment import as_options
from tests.support.gateway import protocol
from tests.support.programs import run
from tests.support.topics import QUIET
from tests.support.waiting import until
from tests.support.wire.requests import creation
from tests.support.wire_client import WireClient


@pytest.fixture(scope="module")
def mutual(serve, secured):
    """A gateway in front of a listener that trusts only its CA: trent may create all of his topics, mallory none."""
    secured.allow("trent", [("TOPIC", "trent-", "PREFIXED", "ALL")])
    secured.allow("mallory", [("TOPIC", "mallory-", "PREFIXED", "ALL"), ("TOPIC", "trent-", "PREFIXED", "DESCRIBE")])
    own, issuer = secured.authority.sign("gateway-of-certificates", HOST), secured.issuer.own
    given = [
        f"kafka.target_servers={secured.gateway_address}",
        "target.security_protocol=SSL",
        f"target.ssl_ca_location={secured.authority.path}",
        f"gateway.ssl_certificate_location={own.path}",
        f"gateway.ssl_key_location={own.key}",
        "gateway.ssl_client_auth=required",
        f"gateway.ssl_ca_location={secured.authority.path}",
        f"gateway.ssl_issuer_certificate_location={issuer.path}",
        f"gateway.ssl_issuer_key_location={issuer.key}",
        f"gateway.ssl_principal_mapping_rules={GATEWAY_RULES}",
    ]
    served = serve(secured.broker, *given)
    served.secured = secured
    return served


def connected(mutual, certificate, port=None):
    """Connect with a certificate to the gateway, or to a port of the broker."""
    context = ssl.create_default_context(cafile=mutual.secured.authority.path)
    if certificate:
        context.load_cert_chain(certificate.path, certificate.key)
    return WireClient((HOST, port or mutual.gateway.port), protocol(), "app", context)


def certificate(mutual, name):
    return mutual.secured.authority.sign(f"{name}-user", subject=f"/O=Example/OU=users/CN={name}")


def alert(mutual, certificate, port):
    """Return whether a handshake, or the first request after it, is rejected by an alert of TLS."""
    with pytest.raises(ssl.SSLError) as raised, connected(mutual, certificate, port) as client:
        client.call(18, 0, {})
    return "_ALERT_" in raised.value.reason


def results(client, *names, partitions=1):
    """Return the error of each topic that is created."""
    return {
        topic["name"]: topic["errorCode"]
        for topic in client.call(19, 7, creation(*names, partitions=partitions))["topics"]
    }


def test_each_client_has_its_own_permissions_and_its_own_quota(mutual):
    """Both have a burst of 11; a topic that an ACL denies costs nothing."""
    before = len(mutual.job.requests)
    for user in ("trent", "mallory"):
        mutual.job.set_quota(QuotaEntity(user), 1.0)
    with (
        connected(mutual, certificate(mutual, "Trent")) as trent,
        connected(mutual, certificate(mutual, "Mallory")) as mallory,
    ):
        assert results(mallory, "trent-stolen", "mallory-own") == {"trent-stolen": 29, "mallory-own": 0}
        assert results(trent, "trent-large", partitions=20) == {"trent-large": 0}
        assert results(trent, "trent-more", "mallory-x") == {"trent-more": 89, "mallory-x": 29}
        assert results(mallory, "mallory-more") == {"mallory-more": 0}
    charged = [
        (request.user, [(topic.name, topic.partitions) for topic in request.topics])
        for request in mutual.job.requests[before:]
    ]
    assert charged == [
        ("mallory", [("mallory-own", 1)]),
        ("trent", [("trent-large", 20)]),
        ("trent", [("trent-more", 1)]),
        ("mallory", [("mallory-more", 1)]),
    ]


@pytest.mark.parametrize("kind", ["foreign", "expired", "none"])
def test_a_client_without_a_valid_certificate_is_rejected_as_by_a_broker(mutual, tmp_path, kind):
    """In the handshake: by an alert, after which clients do not retry."""
    valid = certificate(mutual, "Trent")
    if kind == "foreign":
        given = Authority(tmp_path / "foreign").sign("Trent", subject="/O=Example/OU=users/CN=Trent")
    elif kind == "expired":
        given = expired(mutual, valid, tmp_path)
    else:
        given = None
    broker_port = int(mutual.secured.tls_address.rpartition(":")[2])
    logged = mutual.gateway.log.stat().st_size
    assert [alert(mutual, given, port) for port in (mutual.gateway.port, broker_port)] == [True, True]
    reason = "peer did not return a certificate" if kind == "none" else "certificate verify failed"
    line = f"its TLS handshake failed: {reason}"
    # One line a second for a reason, so that the one of another test may have taken its place.
    until(lambda: line in mutual.gateway.log.read_text()[logged:] or not alert(mutual, given, mutual.gateway.port))
    with connected(mutual, valid) as trent:
        assert trent.call(18, 0, {})["errorCode"] == 0


def expired(mutual, valid, folder):
    """Return a certificate of the clients' CA that has expired."""
    own = mutual.secured.authority.own
    files = {"ssl_issuer_certificate_location": str(own.path), "ssl_issuer_key_location": str(own.key)}
    settings = mutual.settings.gateway.model_copy(update=files)
    texts = Issuer.read(settings).certificate(ssl.PEM_cert_to_DER_cert(valid.path.read_text()), time.time() - 3600)
    made = Certificate(folder / "expired.pem", folder / "expired.key")
    for path, text in zip((made.path, made.key), texts, strict=True):
        path.write_text(text)
    return made


def test_clients_of_librdkafka_connect_with_their_certificates(mutual):
    given = certificate(mutual, "Mallory")
    admin = AdminClient(
        {
            **QUIET,
            "bootstrap.servers": mutual.gateway.address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(mutual.secured.authority.path),
            "ssl.certificate.location": str(given.path),
            "ssl.key.location": str(given.key),
        }
    )
    admin.create_topics([NewTopic("mallory-librdkafka", 2)])["mallory-librdkafka"].result(30)
    assert (mutual.job.requests[-1].user, mutual.job.requests[-1].topics[0].partitions) == ("mallory", 2)


def test_a_listener_that_does_not_trust_the_issuer_fails_the_start(mutual, tmp_path):
    other = Authority(tmp_path / "other").own
    issuer = [
        f"gateway.ssl_issuer_{kind}_location={path}"
        for kind, path in {"certificate": other.path, "key": other.key}.items()
    ]
    ended = run(*as_options(mutual.settings, *mutual.given, *issuer), "gateway")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        f"the addresses that {mutual.secured.gateway_address} advertises: TLS fails: " in ended.stderr.splitlines()[-1]
    )
