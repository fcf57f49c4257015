"""Settings with which a gateway must not start end it with one line and exit code 2."""

import socket

import pytest

from jobs.__main__ import app
from jobs.sandbox.broker import HOST, free_port, with_plaintext_cluster
from quota.errors import BadInput
from quota.kafka.topics.preparation import prepare_topics
from tests.support.broker import Authority
from tests.support.deployment import as_options, make_deployment


def cases(folder, broker, taken):
    """Return settings and the expected line, by the name of the error."""
    authority = Authority(folder / "certificates")
    own, other = authority.sign("own", HOST), authority.sign("other", HOST)
    host, _, port = broker.address.partition(":")
    elsewhere = f"gateway.listeners={free_port()}={host}:{port}"
    return {
        "a port in use": ([f"gateway.first_port={taken}"], f"{HOST}:{taken} is in use; set gateway.first_port or"),
        "brokers that bypass it": (
            ["gateway.advertised_by=brokers", elsewhere],
            f"clients would bypass the gateway: brokers advertise {broker.address}",
        ),
        "a listener for another broker": (
            [f"gateway.listeners={free_port()}=localhost:{port}"],
            f"brokers advertise {broker.address}, but the gateway's addresses are localhost:{port}",
        ),
        "any address": (["gateway.address=0.0.0.0"], "clients cannot connect to 0.0.0.0: set gateway.advertised_host"),
        "a certificate that is not for its key": (
            [f"gateway.ssl_certificate_location={own.path}", f"gateway.ssl_key_location={other.key}"],
            "cannot be used together: key values mismatch",
        ),
        "a file that is no certificate": (
            [f"gateway.ssl_certificate_location={own.key}", f"gateway.ssl_key_location={own.key}"],
            "gateway.ssl_certificate_location",
        ),
        "no jar": (
            ["broker.jars=/nowhere"],
            "no jars in /nowhere; set broker.jars to a folder",
        ),
        "a certificate of its own for the brokers": (
            [
                "target.security_protocol=SSL",
                f"target.ssl_ca_location={authority.path}",
                f"target.ssl_certificate_location={own.path}",
                f"target.ssl_key_location={own.key}",
            ],
            "all clients would become the principal of the gateway's own certificate",
        ),
    }


@pytest.fixture(scope="module")
def ground(base_settings, broker, tmp_path_factory):
    """Return the options of a deployment on the broker, and the cases, with a port in use."""
    folder = tmp_path_factory.mktemp("bad")
    settings = make_deployment(with_plaintext_cluster(base_settings, broker.address), "bad-start", folder)
    prepare_topics(settings)
    with socket.create_server((HOST, 0)) as taken:
        yield as_options(settings), cases(folder, broker, taken.getsockname()[1])


NAMES = (
    "a port in use",
    "brokers that bypass it",
    "a listener for another broker",
    "any address",
    "a certificate that is not for its key",
    "a file that is no certificate",
    "no jar",
    "a certificate of its own for the brokers",
)


@pytest.mark.timeout(90)  # one that starts would serve without end
@pytest.mark.parametrize("name", NAMES)
def test_a_failed_start_ends_with_a_line_that_says_what_to_change(ground, name, capsys):
    """It never becomes ready."""
    options, wrong = ground
    given, expected = wrong[name]
    with pytest.raises(BadInput) as error:
        app(["gateway", *options, *(part for each in given for part in ("--set", each))], standalone_mode=False)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""
