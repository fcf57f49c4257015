"""OAUTHBEARER: the settings of each kind of client, and rejected settings."""

import ssl

import pytest

from quota.errors import BadInput
from quota.settings import load_settings
from quota.settings.security.oauth import ClientCredentials
from tests.support.broker import CERTIFICATE_PEM

TLS_URL = "https://idp/token"
CLIENT = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "http://idp/token",
    "sasl_oauthbearer_client_id": "enforce",
    "sasl_oauthbearer_client_secret": "of-enforce",
}


def load(*target, **more):
    """Settings with client credentials, and with other keys of `kafka` and `target`."""
    kafka = [f"kafka.{name}={value}" for name, value in {**CLIENT, **more}.items()]
    return load_settings([*kafka, *(f"target.{each}" for each in target)], environment={}, with_default_file=False)


def test_client_credentials_as_each_client_takes_them(tmp_path):
    secret, authority = tmp_path / "secret", tmp_path / "ca.pem"
    secret.write_text('a"b\\c\n')
    authority.write_text(CERTIFICATE_PEM)
    settings = load(
        sasl_oauthbearer_client_secret="",
        sasl_oauthbearer_client_secret_file=secret,
        sasl_oauthbearer_token_endpoint_url=TLS_URL,
        sasl_oauthbearer_scope="kafka",
        sasl_oauthbearer_extensions="logicalCluster=lkc-1,identityPoolId=pool-2",
        sasl_oauthbearer_ca_location=authority,
    )
    common = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }
    assert settings.kafka.security.librdkafka() == {
        **common,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "enforce",
        "sasl.oauthbearer.client.secret": 'a"b\\c',
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
        "https.ca.pem": CERTIFICATE_PEM,
    }
    assert settings.kafka.security.java() == {
        **common,
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            r'password="" clientId="enforce" clientSecret="a\"b\\c" scope="kafka" '
            r'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2" '
            r'ssl.truststore.type="PEM" '
            r'ssl.truststore.certificates="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";'
        ),
        "sasl.login.refresh.min.period.seconds": "5",
        "sasl.login.refresh.buffer.seconds": "15",
    }


def test_without_an_authority_the_token_server_is_verified_by_those_of_the_system():
    """libcurl in confluent-kafka's wheel finds them on no system but Red Hat's."""
    found = load(sasl_oauthbearer_token_endpoint_url=TLS_URL).kafka.security.librdkafka()
    assert found.get("https.ca.location") == ssl.get_default_verify_paths().cafile
    assert "https.ca.location" not in load().kafka.security.librdkafka()


def test_a_secret_is_read_each_time_a_client_is_created(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("first")
    settings = load(sasl_oauthbearer_client_secret="", sasl_oauthbearer_client_secret_file=secret)
    secret.write_text("second")
    assert settings.kafka.security.librdkafka()["sasl.oauthbearer.client.secret"] == "second"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"sasl_oauthbearer_client_id": ""}, "sasl_mechanism OAUTHBEARER needs sasl_oauthbearer_client_id"),
        ({"sasl_oauthbearer_client_secret": ""}, "OAUTHBEARER needs sasl_oauthbearer_client_secret"),
        ({"sasl_oauthbearer_token_endpoint_url": ""}, "OAUTHBEARER needs sasl_oauthbearer_token_endpoint_url"),
        ({"sasl_oauthbearer_token_endpoint_url": "idp/token"}, "expected http://host/path or https://host/path"),
        ({"sasl_oauthbearer_extensions": "a"}, "expected name=value,name=value with letters as names, got 'a'"),
        ({"sasl_username": "enforce"}, "sasl_mechanism OAUTHBEARER does not use sasl_username"),
        ({"sasl_password": "hunter2"}, "sasl_mechanism OAUTHBEARER does not use sasl_password"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"},
            "sasl_mechanism PLAIN does not use sasl_oauthbearer_token_endpoint_url",
        ),
        ({"security_protocol": "PLAINTEXT"}, "PLAINTEXT does not use sasl_mechanism"),
    ],
)
def test_incompatible_settings_are_one_line_without_the_secret(more, error):
    with pytest.raises(BadInput) as raised:
        load(**more)
    assert error in str(raised.value)
    assert "of-enforce" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_secret_is_never_printed():
    settings = load()
    for each in (settings, settings.kafka.connection, settings.kafka.security.oauth):
        assert "of-enforce" not in f"{each} {each!r}"


def test_the_target_has_the_client_of_kafka():
    assert load().target_connection.security.oauth == ClientCredentials("http://idp/token", "enforce", "of-enforce")


def test_the_target_may_log_in_differently():
    login = ["security_protocol=SASL_PLAINTEXT", "sasl_mechanism=PLAIN", "sasl_username=bob", "sasl_password=of-bob"]
    security = load(*login).target_connection.security
    assert (security.sasl_mechanism, security.sasl_username, security.oauth) == ("PLAIN", "bob", None)
