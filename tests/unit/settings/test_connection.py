"""TLS and SASL: the settings of each kind of client, rejected settings, and secrets that are never shown."""

import pickle
import re

import pytest
from pydantic import ValidationError

from jobs.spark.properties import spark_properties
from quota.errors import BadInput
from quota.kafka.admin.options import ClientOptions
from quota.kafka.quotas.log import KafkaQuotas
from quota.settings import load_settings
from quota.settings.connection import Connection
from quota.settings.secrets import is_secret
from quota.settings.sections import KafkaSettings
from quota.settings.security.clients import Security
from tests.support.broker import CERTIFICATE_PEM

KEY = "-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n"
ENCRYPTED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nCCCC\n-----END ENCRYPTED PRIVATE KEY-----\n"
SASL = ["kafka.security_protocol=SASL_SSL", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=alice"]


def load(*overrides, environment=None):
    return load_settings(overrides, environment=environment or {}, with_default_file=False)


@pytest.fixture
def files(tmp_path):
    """Return the paths of files by their contents."""

    def _write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return _write


def test_without_settings_connections_are_unencrypted_and_anonymous():
    connection = load().kafka.connection
    assert connection.librdkafka() == {"bootstrap.servers": "127.0.0.1:9092", "security.protocol": "PLAINTEXT"}
    assert connection.java() == connection.librdkafka()


def test_sasl_over_tls_as_each_client_takes_it(files):
    """The password is read from a file, and quoted as in JAAS."""
    authority, password = files("ca.pem", CERTIFICATE_PEM), files("password", 'a"b\\c;\r\n')
    settings = load(*SASL, f"kafka.sasl_password_file={password}", f"kafka.ssl_ca_location={authority}")
    common = {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert settings.kafka.connection.librdkafka() == {
        **common,
        "sasl.username": "alice",
        "sasl.password": 'a"b\\c;',
        "ssl.ca.pem": CERTIFICATE_PEM,
    }
    assert settings.kafka.connection.java() == {
        **common,
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            r'username="alice" password="a\"b\\c;";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE_PEM,
    }


def test_certificates_as_each_client_takes_them(files):
    certificate, key = files("own.pem", CERTIFICATE_PEM), files("own.key", ENCRYPTED)
    settings = load(
        "kafka.security_protocol=SSL",
        f"kafka.ssl_certificate_location={certificate}",
        f"kafka.ssl_key_location={key}",
        "kafka.ssl_key_password=p",
        "kafka.ssl_endpoint_identification_algorithm=none",
    )
    assert settings.kafka.security.librdkafka() == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.certificate.pem": CERTIFICATE_PEM,
        "ssl.key.pem": ENCRYPTED,
        "ssl.key.password": "p",
    }
    assert settings.kafka.security.java() == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE_PEM,
        "ssl.keystore.key": ENCRYPTED,
        "ssl.key.password": "p",
    }


def test_the_target_has_the_settings_of_kafka_or_its_own():
    sasl = [*SASL, "kafka.sasl_password=p"]
    assert load(*sasl, "kafka.target_servers=t:1").target_connection == Connection(
        "t:1", Security("SASL_SSL", "PLAIN", "alice", "p")
    )
    own = ["target.security_protocol=SASL_PLAINTEXT", "target.sasl_mechanism=SCRAM-SHA-256"]
    own += ["target.sasl_username=bob", "target.sasl_password=q"]
    assert load(*sasl, *own).target_connection == Connection(
        "127.0.0.1:9092", Security("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob", "q")
    )
    assert load(*sasl, "target.security_protocol=PLAINTEXT").target_connection.security == Security()


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        (SASL, "kafka: security_protocol SASL_SSL needs sasl_password"),
        (["kafka.security_protocol=SASL_SSL"], "security_protocol SASL_SSL needs sasl_mechanism"),
        (["kafka.sasl_username=alice"], "security_protocol PLAINTEXT does not use sasl_username"),
        (["kafka.security_protocol=SSL", "kafka.sasl_password=hunter2"], "SSL does not use sasl_password"),
        (["kafka.ssl_endpoint_identification_algorithm=none"], "PLAINTEXT does not use ssl_endpoint_"),
        (["target.sasl_password=hunter2"], "target: security_protocol PLAINTEXT does not use sasl_"),
        (["kafka.security_protocol=TLS"], "kafka.security_protocol: expected 'PLAINTEXT', 'SSL', "),
        ([*SASL, "kafka.sasl_mechanism=GSSAPI"], "kafka.sasl_mechanism: expected '', 'PLAIN'"),
        (
            [*SASL, "kafka.sasl_password=hunter2\n"],
            "kafka.sasl_password: has a control character, got '***",
        ),
        (
            [*SASL, "kafka.sasl_password_file=/no/file"],
            "kafka.sasl_password_file: no such file or directory",
        ),
        ([*SASL, "kafka.sasl_password_file=EMPTY"], "EMPTY is empty"),
        (
            [*SASL, "kafka.sasl_password_file=PASSWORD", "kafka.sasl_password=hunter2"],
            "sasl_password_file are both set",
        ),
        (["kafka.security_protocol=SSL", "kafka.ssl_ca_location=KEY"], "ssl_ca_location: not a certificate"),
        (["kafka.security_protocol=SSL", "kafka.ssl_key_location=EMPTY"], "not a PKCS#8 key"),
        (
            ["kafka.security_protocol=SSL", "kafka.ssl_key_location=KEY"],
            "set ssl_certificate_location and ssl_key_location together",
        ),
        (
            [
                "kafka.security_protocol=SSL",
                "kafka.ssl_certificate_location=CERTIFICATE",
                "kafka.ssl_key_location=ENCRYPTED",
            ],
            "ENCRYPTED is encrypted, and needs ssl_key_password",
        ),
        (
            [
                "kafka.security_protocol=SSL",
                "kafka.ssl_certificate_location=CERTIFICATE",
                "kafka.ssl_key_location=KEY",
                "kafka.ssl_key_password=hunter2",
            ],
            "the key in ssl_key_location is not encrypted",
        ),
        (["kafka.sasl_passwrd=hunter2"], "unknown setting kafka.sasl_passwrd (--set kafka.sasl_passwrd"),
        (["kafka.sasl_pw=hunter2"], "unknown setting kafka.sasl_pw (--set kafka.sasl_pw)"),
        (["kakfa.secret=hunter2"], "unknown setting kakfa.secret"),
        (["sasl_password=hunter2"], "--set sasl_password=********: expected section.key=value"),
        (["kafka.sasl_password:hunter2"], "--set ********: expected section.key=value"),
        (["storage.options=hunter2"], "storage.options must be set entry by entry"),
    ],
)
def test_incompatible_settings_are_one_line_without_the_secret(overrides, error, files):
    """The names of files represent the files."""
    for name, text in {
        "EMPTY": "\n",
        "PASSWORD": "p",
        "KEY": KEY,
        "CERTIFICATE": CERTIFICATE_PEM,
        "ENCRYPTED": ENCRYPTED,
    }.items():
        path = files(name, text)
        overrides = [each.replace(f"={name}", f"={path}") for each in overrides]
    with pytest.raises(BadInput) as raised:
        load(*overrides)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_secret_of_the_environment_or_a_file_is_not_printed_either(tmp_path):
    with pytest.raises(BadInput, match="sasl_password") as raised:
        load(environment={"MUTATION_QUOTA__KAFKA__SASL_PASSWORD": "hunter2"})
    assert "hunter2" not in str(raised.value)
    file = tmp_path / "settings.toml"
    for text in ("sasl_password = ['hunter2']", "sasl_password = 'hunter2'", "sasl_password = 'hunter2"):
        file.write_text(f"[kafka]\n{text}\n")
        with pytest.raises(BadInput) as raised:
            load_settings((), file, {})
        assert "hunter2" not in str(raised.value)
    file.write_text("[storage.options]\n'fs.x' = ['hunter2']\n")
    with pytest.raises(BadInput) as raised:
        load_settings((), file, {})
    assert "hunter2" not in str(raised.value)


def test_nothing_printed_contains_a_secret(files):
    """Settings, connections, what workers are sent, clients' options, and pydantic's own errors."""
    certificate, key = files("own.pem", CERTIFICATE_PEM), files("own.key", KEY)
    own = [f"kafka.ssl_certificate_location={certificate}", f"kafka.ssl_key_location={key}"]
    settings = load(*SASL, *own, "kafka.sasl_password=hunter2", "storage.options.fs.s3a.secret.key=hunter2")
    quotas = KafkaQuotas.from_settings(settings, 1.0)
    options = ClientOptions.from_config({"bootstrap.servers": "b:1", "sasl.password": "hunter2"})
    with pytest.raises(ValidationError) as raised:
        KafkaSettings(sasl_password="hunter2")  # noqa: S106
    printed = (
        settings,
        settings.kafka.connection,
        quotas,
        options,
        ClientOptions.from_settings(settings),
        raised.value,
    )
    for each in printed:
        for text in (str(each), repr(each), f"{each}"):
            assert "hunter2" not in text
            assert "BBBB" not in text


def test_workers_on_other_machines_need_no_files(files):
    """The credentials themselves are sent to them."""
    password = files("password", "hunter2")
    sent = pickle.dumps(KafkaQuotas.from_settings(load(*SASL, f"kafka.sasl_password_file={password}"), 1.0))
    password.unlink()
    assert pickle.loads(sent).connection.librdkafka()["sasl.password"] == "hunter2"  # noqa: S301


def test_a_file_removed_since_the_start_is_reported(files):
    password = files("password", "hunter2")
    settings = load(*SASL, f"kafka.sasl_password_file={password}")
    password.unlink()
    with pytest.raises(BadInput, match="SASL_SSL: No such file or directory"):
        _ = settings.kafka.connection


def test_an_application_gives_librdkafkas_own_settings():
    """This is true for both clusters, unless the settings configure the deciding one."""
    config = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    config |= {"sasl.username": "alice", "sasl.password": "p", "ssl.ca.location": "/ca", "socket.timeout.ms": 7}
    options = ClientOptions.from_config(config)
    assert options.target == options.control == config
    assert options.user == "alice"

    own = {"kafka.bootstrap_servers": "c:2", "kafka.security_protocol": "SASL_PLAINTEXT"}
    own |= {"kafka.sasl_mechanism": "SCRAM-SHA-256", "kafka.sasl_username": "bob", "kafka.sasl_password": "q"}
    options = ClientOptions.from_config(config | {f"mutation.quota.{name}": value for name, value in own.items()})
    assert options.target == config
    assert options.control == {
        "bootstrap.servers": "c:2",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "bob",
        "sasl.password": "q",
        "socket.timeout.ms": 7,
    }


def test_a_program_connects_to_each_cluster_by_its_settings():
    settings = load(*SASL, "kafka.sasl_password=p", "kafka.target_servers=t:1", "target.security_protocol=SSL")
    options = ClientOptions.from_settings(settings)
    assert (options.target["bootstrap.servers"], options.target["security.protocol"]) == ("t:1", "SSL")
    assert "sasl.password" not in options.target
    assert (options.control["bootstrap.servers"], options.control["sasl.password"]) == ("127.0.0.1:9092", "p")


def test_storage_options_are_properties_that_spark_hides():
    """They have Hadoop's names, and those of Spark as secrets."""
    properties = spark_properties(load("storage.options.fs.s3a.secret.key=p", "storage.options.fs.x.y-z=q"))
    assert properties["spark.hadoop.fs.s3a.secret.key"] == "p"
    assert properties["spark.hadoop.fs.x.y-z"] == "q"
    assert re.search(properties["spark.redaction.regex"], "spark.hadoop.fs.x.y-z")


@pytest.mark.parametrize(
    "name",
    [
        "sasl_password",
        "kafka.sasl.jaas.config",
        "ssl.key.password",
        "fs.s3a.access.key",
        "fs.azure.account.key.x",
        "fs.s3a.encryption.key",
        "quota.callback_configs.api.key",
    ],
)
def test_secrets_are_known_by_their_names(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl_password_file", "ssl_key_location", "sasl_username", "spark.driver.memory"])
def test_values_that_are_not_secret_are_shown(name):
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("overrides", "advice"),
    [
        ([], "; set kafka.bootstrap_servers; for TLS or SASL also kafka.security_protocol"),
        (
            ["kafka.target_servers=localhost:1"],
            "; set kafka.target_servers; for TLS or SASL also target.security_protocol",
        ),
        (
            ["kafka.target_servers=t:1"],
            (
                "; check the address (kafka.target_servers), the network and the listener; "
                "for TLS or SASL also target.security_protocol"
            ),
        ),
        (
            ["target.security_protocol=PLAINTEXT"],
            "; set kafka.bootstrap_servers; for TLS or SASL also target.security_protocol",
        ),
    ],
)
def test_advice_on_the_target_names_the_settings_that_it_is_reached_by(overrides, advice):
    assert (
        load(*overrides).target_connection.advice.replace("start it (make run, or mutation-quota broker), or ", "")
        == advice
    )


def test_advice_on_the_deciding_cluster_names_the_settings_of_kafka():
    advice = "; start it (make run, or mutation-quota broker), or set kafka.bootstrap_servers; "
    assert (
        load("kafka.target_servers=t:1").kafka.connection.advice
        == f"{advice}for TLS or SASL also kafka.security_protocol"
    )


@pytest.mark.parametrize(
    ("servers", "local"),
    [
        ("localhost:9092", True),
        ("127.0.0.2", True),
        ("[::1]:9092,localhost:9093", True),
        ("broker:9092", False),
        ("10.0.0.5:9092", False),
        ("localhost:9092,broker:9092", False),
    ],
)
def test_only_a_broker_of_this_machine_is_to_be_started(servers, local):
    advice = load(f"kafka.bootstrap_servers={servers}").kafka.connection.advice
    assert ("start it (make run, or mutation-quota broker)" in advice) == local
    assert ("check the address (kafka.bootstrap_servers), the network and the listener" in advice) != local


def test_text_around_the_certificates_is_ignored(tmp_path):
    """Python accepts certificates in ASCII only, and exports may have a name above."""
    blocks = [f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n" for name in ("QQ==", "Qg==")]
    file = tmp_path / "ca.pem"
    file.write_text(f"# Österreich\n{blocks[0]}# Wörgl\n{blocks[1]}", encoding="utf-8")
    settings = load("kafka.security_protocol=SSL", f"kafka.ssl_ca_location={file}")
    assert settings.kafka.connection.security.ssl_ca == "".join(blocks)
