"""Clients with certificates: at the brokers each has its own principal, which is also the user that is charged."""

import ssl
from types import SimpleNamespace

import pytest

from jobs.sandbox.broker import HOST, with_plaintext_cluster
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from tests.support.broker import GATEWAY_RULES
from tests.support.deployment import make_deployment
from tests.support.gateway import StandIn, protocol, running_gateway
from tests.support.wire.requests import creation
from tests.support.wire_client import WireClient


@pytest.fixture(scope="module")
def mutual(base_settings, secured, tmp_path_factory):
    """A gateway in front of a listener that trusts only its CA: trent may create all of his topics, mallory none."""
    folder = tmp_path_factory.mktemp("certificates")
    settings = make_deployment(with_plaintext_cluster(base_settings, secured.broker.address), "certificates", folder)
    prepare_topics(settings)
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
    with StandIn(settings) as job, running_gateway(settings, folder / "gateway.log", *given) as gateway:
        yield SimpleNamespace(settings=settings, job=job, gateway=gateway, secured=secured, given=given, folder=folder)


def connected(mutual, certificate, port=None):
    """Connect with a certificate to the gateway, or to a port of the broker."""
    context = ssl.create_default_context(cafile=mutual.secured.authority.path)
    if certificate:
        context.load_cert_chain(certificate.path, certificate.key)
    return WireClient((HOST, port or mutual.gateway.port), protocol(), "app", context)


def certificate(mutual, name):
    return mutual.secured.authority.sign(f"{name}-user", subject=f"/O=Example/OU=users/CN={name}")


def results(client, *names, partitions=1):
    """Return the error of each topic that is created."""
    return {
        each["name"]: each["errorCode"]
        for each in client.call(19, 7, creation(*names, partitions=partitions))["topics"]
    }


def test_each_client_has_its_own_permissions_and_its_own_quota(mutual):
    """Both have a burst of 11; a topic that an ACL denies costs nothing."""
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
    charged = [(each.user, [(topic.name, topic.partitions) for topic in each.topics]) for each in mutual.job.requests]
    assert charged == [
        ("mallory", [("mallory-own", 1)]),
        ("trent", [("trent-large", 20)]),
        ("trent", [("trent-more", 1)]),
        ("mallory", [("mallory-more", 1)]),
    ]
