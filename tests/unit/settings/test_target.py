"""The security of the target cluster: all of `[kafka]`, or all of its own."""

import pytest

from quota.errors import BadInput
from quota.settings import load_settings
from quota.settings.listing import listed_settings
from quota.settings.loading import load_with_origins
from quota.settings.security.clients import Security
from tests.support.broker import CERTIFICATE_PEM

KAFKA = [
    "kafka.security_protocol=SASL_SSL",
    "kafka.sasl_mechanism=PLAIN",
    "kafka.sasl_username=alice",
    "kafka.sasl_password=of-alice",
    "kafka.target_servers=elsewhere:9092",
]


def load(*target):
    """Return settings with these keys of the target."""
    overrides = [*KAFKA, *(f"target.{each}" for each in target)]
    return load_settings(overrides, environment={}, with_default_file=False)


def test_an_empty_section_is_that_of_kafka():
    assert load().target_connection.security == Security("SASL_SSL", "PLAIN", "alice", "of-alice")


def test_a_section_with_a_key_has_nothing_of_kafka(tmp_path):
    authority = tmp_path / "ca.pem"
    authority.write_text(CERTIFICATE_PEM)
    found = load("security_protocol=SSL", f"ssl_ca_location={authority}").target_connection
    assert found.security == Security("SSL", ssl_ca=CERTIFICATE_PEM)
    assert "of-alice" not in str(found.librdkafka())


@pytest.mark.parametrize(
    "own",
    [
        ["sasl_username=bob"],
        ["sasl_password=of-bob"],
        ["sasl_mechanism=SCRAM-SHA-256"],
        ["librdkafka.client.id=a"],
        ["librdkafka.security.protocol=SASL_PLAINTEXT"],
    ],
)
def test_a_section_without_its_protocol_is_refused_where_kafka_has_one(own):
    """A login of `[kafka]` is never sent by other means than it says, and a target never silently in plain text."""
    with pytest.raises(BadInput) as raised:
        load(*own)
    assert "target: security_protocol is not set, and kafka.security_protocol=SASL_SSL is not inherited" in str(
        raised.value
    )
    assert "of-" not in str(raised.value)


@pytest.mark.parametrize(
    ("own", "error"),
    [
        (
            ["security_protocol=SASL_SSL", "sasl_mechanism=PLAIN", "sasl_username=bob"],
            "target: security_protocol SASL_SSL needs sasl_password",
        ),
        (["security_protocol=SASL_PLAINTEXT"], "target: security_protocol SASL_PLAINTEXT needs sasl_mechanism"),
    ],
)
def test_a_section_that_lacks_a_key_is_refused_with_its_name(own, error):
    with pytest.raises(BadInput) as raised:
        load(*own)
    assert error in str(raised.value)
    assert "of-alice" not in str(raised.value)


def test_a_mechanism_of_librdkafkas_own_needs_no_login_of_the_settings():
    found = load("security_protocol=SASL_SSL", "sasl_mechanism=", "librdkafka.sasl.mechanism=GSSAPI").target_connection
    assert found.librdkafka()["sasl.mechanism"] == "GSSAPI"
    assert "sasl.password" not in found.librdkafka()


def test_each_key_of_the_target_shows_its_origin():
    def listed(*more):
        loaded = load_with_origins([*KAFKA, *more], None, {}, with_default_file=False)
        return {each.name: (each.value, each.origin) for each in listed_settings(loaded)}

    inherited = listed("kafka.librdkafka.client.rack=a")
    assert inherited["target.security_protocol"] == ("SASL_SSL", "kafka")
    assert inherited["target.sasl_password"] == ("********", "kafka")
    assert inherited["target.librdkafka.client.rack"] == ("********", "kafka")
    own = listed("target.security_protocol=SSL", "kafka.librdkafka.client.rack=a")
    assert own["target.security_protocol"] == ("SSL", "option")
    assert own["target.sasl_username"] == ("", "default")
    assert "target.librdkafka.client.rack" not in own
