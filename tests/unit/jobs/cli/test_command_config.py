"""Kafka's own properties files as settings of the connection."""

import logging

import pytest

from jobs.cli.command_config import read_command_config, read_target_command_config
from quota.errors import BadInput
from quota.settings import load_settings
from quota.settings.connection import ClientCredentials, Connection, Security
from tests.support.logins import SASL

OTHER = "is not KEY=VALUE with a key of Kafka's clients; is this a Kafka properties file?"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"


@pytest.fixture
def read(tmp_path):
    def _read(text):
        file = tmp_path / "client.properties"
        file.write_text(text)
        return read_command_config(file)

    return _read


def kafka(overrides, *before):
    return load_settings([*before, *overrides], environment={}, with_default_file=False).kafka


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_a_login_is_translated(read, mechanism, module):
    section = kafka(
        read(
            "# a comment\n"
            "bootstrap.servers = broker:9093\n"
            "security.protocol: SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n"
            '    username="ann" \\\n'
            '    password="a=b;\\\\"c";\n'
        )
    )
    assert section.bootstrap_servers == "broker:9093"
    assert (section.security_protocol, section.sasl_mechanism, section.sasl_username) == (
        "SASL_PLAINTEXT",
        mechanism,
        "ann",
    )
    assert section.sasl_password.get_secret_value() == 'a=b;"c'


def test_certificates_in_pem_are_translated(read, tmp_path):
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    (tmp_path / "own.pem").write_text(f"{CERTIFICATE}-----BEGIN PRIVATE KEY-----\n")
    section = kafka(
        read(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path}/ca.pem\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/own.pem\n"
            "ssl.endpoint.identification.algorithm=\n"
        )
    )
    assert (section.ssl_ca_location, section.ssl_certificate_location) == (f"{tmp_path}/ca.pem", f"{tmp_path}/own.pem")
    assert (section.ssl_key_location, section.ssl_endpoint_identification_algorithm) == (f"{tmp_path}/own.pem", "none")


def test_client_credentials_are_translated(read, tmp_path):
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    security = kafka(
        read(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            "sasl.oauthbearer.token.endpoint.url=https\\://idp/token\n"
            "sasl.login.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \\\n"
            '    clientId="ann" clientSecret="a=b;" scope="kafka" extension_logicalCluster="lkc-1" \\\n'
            f'    ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path}/ca.pem";\n'
        )
    ).security
    assert security.oauth == ClientCredentials(
        "https://idp/token",
        "ann",
        "a=b;",
        "kafka",
        "logicalCluster=lkc-1",
        CERTIFICATE,
    )


def test_the_file_replaces_the_whole_security_of_the_settings(read):
    section = kafka(read("security.protocol=PLAINTEXT\n"), *SASL, "kafka.sasl_password=p")
    assert (section.security_protocol, section.sasl_username) == ("PLAINTEXT", "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("boostrap.servers=b:1\n", "boostrap.servers is not supported; did you mean bootstrap.servers?"),
        ("ssl.a=1\nssl.b=1\nssl.c=1\nssl.d=1\n", "ssl.a, ssl.b, ssl.c and 1 more are not supported; remove them"),
        ("security.providers=x\n", "security.providers is not supported; remove it from the file"),
        (
            "ssl.truststore.location=trust.jks\n",
            "ssl.truststore.location is a JKS file, and only PEM can be read: convert it, and set ssl.truststore.type",
        ),
        ("sasl.login.callback.handler.class=com.example.Login\n", "Login is not supported; "),
        ("sasl.jaas.config=com.example.Login required password=hunter2;\n", "sasl.jaas.config is not supported"),
        (
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required s=hunter2;",
            "sasl.jaas.config is not supported",
        ),
        ("sasl.jaas.config=hunter2\\u00\n", "\\u is not followed by four hexadecimal digits"),
        # Another kind of file, whose content is not shown.
        ("hunter2\n", f"line 1 {OTHER}"),
        ("hunter2=\n", f"line 1 {OTHER}"),
        ("hunter2.word hunter2\n", f"line 1 {OTHER}"),
        ("machine.login hunter2:password=x\n", f"line 1 {OTHER}"),
        ("# one \\\nsecurity.protocol=\\\nSSL\n\nretries=3\nhunter2 hunter2: 1\n", f"line 6 {OTHER}"),
        ("-----BEGIN PRIVATE KEY-----\nhunter2==\n-----END PRIVATE KEY-----\n", f"line 1 {OTHER}"),
    ],
)
def test_an_unusable_file_is_reported_in_one_line_without_secrets(read, text, error):
    with pytest.raises(BadInput) as raised:
        read(text)
    assert error in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_properties_that_do_not_concern_security_are_ignored_as_by_kafkas_tools(read, caplog):
    with caplog.at_level(logging.DEBUG):
        given = read(
            "# Required connection configs for Kafka producer, consumer, and admin\n"
            "bootstrap.servers=pkc.confluent.cloud:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            "username='KEY' password='hunter2';\n"
            "client.dns.lookup=use_all_dns_ips\nsession.timeout.ms=45000\nacks=all\nretries=3\n"
            "request.timeout.ms=20000\ndefault.api.timeout.ms=60000\n"
            "basic.auth.credentials.source=USER_INFO\nbasic.auth.user.info=hunter3\n"
        )
    assert (kafka(given).bootstrap_servers, kafka(given).security_protocol) == ("pkc.confluent.cloud:9092", "SASL_SSL")
    assert (kafka(given).sasl_username, kafka(given).sasl_password.get_secret_value()) == ("KEY", "hunter2")
    assert "retries, request.timeout.ms, default.api.timeout.ms, basic.auth.credentials.source" in caplog.text
    assert "hunter" not in caplog.text


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"--command-config .*/none: No such file or directory"):
        read_command_config(tmp_path / "none")


@pytest.mark.parametrize(("servers", "expected"), [("bootstrap.servers=target:9093\n", "target:9093"), ("", "t:1")])
def test_a_file_for_the_target_replaces_all_security_and_servers_that_it_has(tmp_path, servers, expected):
    file = tmp_path / "target.properties"
    file.write_text(f"{servers}security.protocol=SSL\n")
    overrides = [*SASL, "kafka.sasl_password=p", "target.sasl_username=v", "kafka.target_servers=t:1"]
    settings = load_settings([*overrides, *read_target_command_config(file)], environment={}, with_default_file=False)
    assert (settings.kafka.bootstrap_servers, settings.kafka.sasl_username) == ("127.0.0.1:9092", "alice")
    assert settings.target_connection == Connection(expected, Security("SSL"))
