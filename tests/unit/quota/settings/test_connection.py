"""TLS and SASL, further properties of each kind of client, and secrets that are never shown."""

import pickle
import re
import ssl

import pytest
from pydantic import ValidationError

from jobs.enforce.query import sink_options
from jobs.spark.failures import QueryFailed, with_operator_advice
from jobs.spark.kafka_source import kafka_options
from jobs.spark.properties import spark_properties
from quota.errors import BadInput, MutationQuotaError
from quota.kafka.admin.client_options import ClientOptions
from quota.kafka.librdkafka import client_config
from quota.kafka.quotas.log import KafkaQuotas
from quota.kafka.reading import make_consumer
from quota.settings import load_settings
from quota.settings.connection import ClientCredentials, Connection, Security
from quota.settings.loading import load_with_origins
from quota.settings.secrets import is_secret
from quota.settings.sections import KafkaSettings
from tests.support.broker import CERTIFICATE_PEM
from tests.support.logins import SASL, TOKENS
from tests.support.programs import run

KEY = "-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n"
ENCRYPTED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nCCCC\n-----END ENCRYPTED PRIVATE KEY-----\n"
JAAS = "org.apache.kafka.common.security"


def load(*overrides):
    return load_settings(overrides, environment={}, with_default_file=False)


@pytest.fixture
def files(tmp_path):
    """Return a function that writes a file and returns its path."""

    def _write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return _write


@pytest.fixture
def with_files(files):
    """Return a function that writes files, and puts their paths in place of their names in settings."""
    written = {
        "EMPTY": "\n",
        "PASSWORD": 'a"b\\c;\r\n',
        "KEY": KEY,
        "CERTIFICATE": CERTIFICATE_PEM,
        "ENCRYPTED": ENCRYPTED,
    }
    paths = {name: files(name, text) for name, text in written.items()}

    def _with_files(settings):
        return [
            re.sub("=(file:)?([A-Z]+)$", lambda match: f"={match[1] or ''}{paths.get(match[2], match[2])}", setting)
            for setting in settings
        ]

    return _with_files


@pytest.mark.parametrize(
    ("settings", "both", "librdkafka", "java"),
    [
        ([], {"security.protocol": "PLAINTEXT"}, {}, {}),
        (
            [*SASL, "kafka.sasl_password=file:PASSWORD", "kafka.ssl_ca_location=CERTIFICATE"],
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "ssl.endpoint.identification.algorithm": "https",
            },
            {"sasl.username": "alice", "sasl.password": 'a"b\\c;', "ssl.ca.pem": CERTIFICATE_PEM},
            {
                "sasl.jaas.config": rf'{JAAS}.plain.PlainLoginModule required username="alice" password="a\"b\\c;";',
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": CERTIFICATE_PEM,
            },
        ),
        (
            [
                *("kafka.security_protocol=SSL", "kafka.ssl_endpoint_identification_algorithm=none"),
                *("kafka.ssl_certificate_location=CERTIFICATE", "kafka.ssl_key_location=ENCRYPTED"),
                "kafka.ssl_key_password=p",
            ],
            {"security.protocol": "SSL", "ssl.key.password": "p"},
            {
                "ssl.endpoint.identification.algorithm": "none",
                "ssl.certificate.pem": CERTIFICATE_PEM,
                "ssl.key.pem": ENCRYPTED,
            },
            {
                "ssl.endpoint.identification.algorithm": "",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": CERTIFICATE_PEM,
                "ssl.keystore.key": ENCRYPTED,
            },
        ),
        (
            [
                *TOKENS,
                "kafka.sasl_oauthbearer_client_secret=file:PASSWORD",
                "kafka.sasl_oauthbearer_token_endpoint_url=https://idp/token",
                "kafka.sasl_oauthbearer_scope=kafka",
                "kafka.librdkafka.sasl.oauthbearer.extensions=logicalCluster=lkc-1,identityPoolId=pool-2",
                "kafka.sasl_oauthbearer_ca_location=CERTIFICATE",
            ],
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "enforce",
                "sasl.oauthbearer.client.secret": 'a"b\\c;',
                "sasl.oauthbearer.scope": "kafka",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
                "https.ca.pem": CERTIFICATE_PEM,
            },
            {
                "sasl.login.callback.handler.class": f"{JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": rf"{JAAS}.oauthbearer.OAuthBearerLoginModule required "
                r'password="" clientId="enforce" clientSecret="a\"b\\c;" scope="kafka" '
                r'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2" '
                r'ssl.truststore.type="PEM" '
                r'ssl.truststore.certificates="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";',
                "sasl.login.refresh.min.period.seconds": "5",
                "sasl.login.refresh.buffer.seconds": "15",
            },
        ),
    ],
    ids=["plain text", "SASL over TLS", "mutual TLS", "client credentials"],
)
def test_security_as_each_client_takes_it(with_files, settings, both, librdkafka, java):
    """Secrets are read from their files without the newline at the end, and quoted as in JAAS."""
    connection = load(*with_files(settings)).kafka.connection
    both = {"bootstrap.servers": "127.0.0.1:9092", **both}
    assert connection.librdkafka() == both | librdkafka
    assert connection.java() == both | java


def test_without_an_authority_the_token_server_is_verified_by_those_of_the_system():
    """libcurl in confluent-kafka's wheel finds them on no system but Red Hat's."""
    options = load(*TOKENS, "kafka.sasl_oauthbearer_token_endpoint_url=https://idp/token").kafka.security.librdkafka()
    assert options.get("https.ca.location") == ssl.get_default_verify_paths().cafile
    assert "https.ca.location" not in load(*TOKENS).kafka.security.librdkafka()


RACK = "kafka.librdkafka.client.rack=a"
OF_BOB = ["security_protocol=SASL_PLAINTEXT", "sasl_mechanism=SCRAM-SHA-256", "sasl_username=bob", "sasl_password=q"]


@pytest.mark.parametrize(
    ("kafka", "target", "security"),
    [
        (SASL, [], Security("SASL_SSL", "PLAIN", "alice", "p")),
        (SASL, OF_BOB, Security("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob", "q")),
        (SASL, ["security_protocol=PLAINTEXT"], Security()),
        ([RACK], [], Security(more_librdkafka=(("client.rack", "a"),))),
        ([RACK], ["librdkafka.client.id=b"], Security(more_librdkafka=(("client.id", "b"),))),
        (SASL, ["security_protocol=SSL", "ssl_ca_location=CERTIFICATE"], Security("SSL", ssl_ca=CERTIFICATE_PEM)),
        (
            TOKENS,
            [],
            Security(
                "SASL_PLAINTEXT", "OAUTHBEARER", oauth=ClientCredentials("http://idp/token", "enforce", "of-hunter2")
            ),
        ),
    ],
)
def test_the_target_has_the_security_of_kafka_or_its_own(with_files, kafka, target, security):
    login = ["kafka.sasl_password=p"] if kafka is SASL else []
    settings = load(*kafka, *login, "kafka.target_servers=t:1", *with_files(f"target.{setting}" for setting in target))
    assert settings.target_connection == Connection("t:1", security)


CERTIFIED = ["kafka.security_protocol=SSL", "kafka.ssl_certificate_location=CERTIFICATE"]


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        ([*SASL, "kafka.sasl_password=file:/no/file"], "/no/file: No such file or directory (kafka.sasl_password)"),
        ([*SASL, "kafka.sasl_password=file:EMPTY"], "EMPTY is empty (kafka.sasl_password)"),
        (["kafka.security_protocol=SSL", "kafka.ssl_ca_location=/no"], "/no: No such file or directory (kafka.ssl_ca_"),
        (["kafka.security_protocol=SSL", "kafka.ssl_ca_location=KEY"], "KEY: not a certificate in PEM format (kafka."),
        ([*CERTIFIED, "kafka.ssl_key_location=EMPTY"], "EMPTY: not a PKCS#8 key"),
        (
            [*CERTIFIED, "kafka.ssl_key_location=ENCRYPTED"],
            "ENCRYPTED is encrypted, and needs ssl_key_password (kafka.",
        ),
        (
            [*CERTIFIED, "kafka.ssl_key_location=KEY", "kafka.ssl_key_password=hunter2"],
            "the key in ssl_key_location is not encrypted",
        ),
        (
            ["target.security_protocol=SSL", "target.ssl_ca_location=/no"],
            "SSL: /no: No such file or directory (target.ssl_ca_location)",
        ),
    ],
)
def test_a_file_is_checked_where_it_is_used_and_not_before(overrides, error, with_files):
    """Several programs share one settings file, and most of them need none of the others' files."""
    settings = load(*with_files(overrides))
    with pytest.raises(BadInput) as raised:
        _ = settings.kafka.connection, settings.target_connection
    assert error in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_command_that_connects_to_nothing_needs_no_files(tmp_path):
    """`config describe` checks the files, as the programs that use them."""
    (tmp_path / "settings.toml").write_text(
        '[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "a"\n'
        'sasl_password = "file:/nowhere/p"\n[target]\nsecurity_protocol = "SSL"\nssl_ca_location = "/nowhere/t.pem"\n'
        '[gateway]\nssl_key_location = "/nowhere/k.pem"\nssl_certificate_location = "/nowhere/c.pem"\n'
        '[dashboard]\ntoken_file = "/nowhere/token"\n'
    )
    for name in ("requests.jsonl", "quotas.jsonl"):
        (tmp_path / name).write_text("")
    given = ("--settings", "settings.toml")
    done = run("simulate", "requests.jsonl", "--quotas", "quotas.jsonl", *given, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "requests.jsonl: no requests\n")
    done = run("config", "describe", *given, cwd=tmp_path)
    expected = "mutation-quota: SASL_SSL: /nowhere/p: No such file or directory (kafka.sasl_password)\n"
    assert (done.returncode, done.stderr) == (2, expected)


def test_what_is_printed_has_the_login_but_no_secret(files):
    """Settings, connections, what workers are sent, clients' options, and pydantic's own errors."""
    certificate, key = files("own.pem", CERTIFICATE_PEM), files("own.key", KEY)
    own = [f"kafka.ssl_certificate_location={certificate}", f"kafka.ssl_key_location={key}"]
    own += [
        f"{name}=hunter2"
        for name in ("kafka.sasl_password", "storage.options.fs.s3a.secret.key", "kafka.java.client.rack")
    ]
    loaded = load_with_origins([*SASL, *own], None, {}, with_default_file=False)
    tokens = load(*TOKENS, "kafka.librdkafka.client.rack=hunter2")
    settings = loaded.settings
    named = [settings, settings.kafka.connection, settings.target_connection]
    assert ["alice" in repr(each) for each in named] == [True] * 3
    options = ClientOptions.from_config({"bootstrap.servers": "b:1", "sasl.password": "hunter2"})
    with pytest.raises(ValidationError) as raised:
        KafkaSettings(sasl_password="hunter2")  # noqa: S106
    printed = [*named, loaded, loaded.origins, tokens, tokens.kafka.connection, tokens.kafka.security.oauth]
    printed += [KafkaQuotas.from_settings(settings, 1.0), options, raised.value]
    for text in (*map(str, printed), *map(repr, printed)):
        assert "hunter2" not in text
        assert "BBBB" not in text


def test_workers_on_other_machines_need_no_files(files):
    """The credentials themselves are sent to them."""
    password = files("password", "hunter2")
    sent = pickle.dumps(KafkaQuotas.from_settings(load(*SASL, f"kafka.sasl_password=file:{password}"), 1.0))
    password.unlink()
    assert pickle.loads(sent).connection.librdkafka()["sasl.password"] == "hunter2"  # noqa: S301


def test_a_secret_is_read_each_time_a_client_is_created(files):
    password = files("password", "first")
    settings = load(*SASL, f"kafka.sasl_password=file:{password}")
    files("password", "second")
    assert settings.kafka.security.librdkafka()["sasl.password"] == "second"
    password.unlink()
    with pytest.raises(BadInput, match=f"SASL_SSL: {password}: No such file or directory"):
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
    decides = {"bootstrap.servers": "c:2", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    assert options.control == decides | {"sasl.username": "bob", "sasl.password": "q", "socket.timeout.ms": 7}


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl_password", True),
        ("kafka.sasl.jaas.config", True),
        ("fs.azure.account.key.x", True),
        ("fs.s3a.encryption.key", True),
        ("quota.callback_configs.api.key", True),
        ("storage.table_options.google_service_account", True),
        ("dashboard.token_file", False),
        ("spark.driver.memory", False),
    ],
)
def test_secrets_are_known_by_their_names(name, secret):
    assert is_secret(name) == secret


START = "start it (mutation-quota run, or mutation-quota broker), or "
CHECK = "check the address"


@pytest.mark.parametrize(
    ("overrides", "kafka", "target"),
    [
        ([], f"{START}set kafka.bootstrap_servers", f"{START}set kafka.bootstrap_servers"),
        (["kafka.target_servers=localhost:1"], f"{START}set kafka.bootstrap_servers", "set kafka.target_servers"),
        (["kafka.target_servers=t:1"], f"{START}set kafka.bootstrap_servers", f"{CHECK} (kafka.target_servers), the"),
        (["kafka.bootstrap_servers=[::1]:9092,localhost:9093"], f"{START}set kafka.b", f"{START}set kafka.b"),
        (["kafka.bootstrap_servers=localhost:9092,broker:9092"], f"{CHECK} (kafka.b", f"{CHECK} (kafka.b"),
        (["kafka.bootstrap_servers=10.0.0.5:9092"], f"{CHECK} (kafka.b", f"{CHECK} (kafka.b"),
    ],
)
def test_advice_names_the_settings_of_each_cluster_and_starts_only_a_broker_of_this_machine(overrides, kafka, target):
    settings = load(*overrides)
    of_target = "target" if "kafka.target_servers" in target else "kafka"
    for connection, advice, section in (
        (settings.kafka.connection, kafka, "kafka"),
        (settings.target_connection, target, of_target),
    ):
        assert connection.advice.startswith(f"; {advice}")
        assert connection.advice.endswith(f"; for TLS or SASL also {section}.security_protocol")


def test_text_around_the_certificates_is_ignored(tmp_path):
    """Python accepts certificates in ASCII only, and exports may have a name above."""
    blocks = [f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n" for name in ("QQ==", "Qg==")]
    file = tmp_path / "ca.pem"
    file.write_text(f"# Österreich\n{blocks[0]}# Wörgl\n{blocks[1]}", encoding="utf-8")
    settings = load("kafka.security_protocol=SSL", f"kafka.ssl_ca_location={file}")
    assert settings.kafka.connection.security.ssl_ca == "".join(blocks)


KERBEROS = [
    "kafka.security_protocol=SASL_PLAINTEXT",
    "kafka.librdkafka.sasl.mechanisms=GSSAPI",
    "kafka.librdkafka.sasl.kerberos.principal=enforce",
]


def test_properties_override_the_settings_and_what_a_client_has_by_default():
    loaded = load(
        "kafka.security_protocol=SSL",
        "kafka.librdkafka.ssl.endpoint.identification.algorithm=none",
        "kafka.librdkafka.client.rack=a",
        "kafka.java.client.rack=b",
        "kafka.java.ssl.endpoint.identification.algorithm=",
        "kafka.java.compression.type=gzip",
    )
    librdkafka = {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "client.rack": "a",
    }
    assert loaded.kafka.security.librdkafka() == librdkafka
    assert client_config(loaded.kafka.connection).items() >= librdkafka.items()
    assert kafka_options(loaded) == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.client.rack": "b",
        "kafka.compression.type": "gzip",
    }
    compression = [sink_options(each)["kafka.compression.type"] for each in (loaded, load())]
    assert compression == ["gzip", "zstd"]


@pytest.mark.parametrize("name", ["bootstrap.servers", "Group.Id", " enable.auto.commit", "isolation.level"])
def test_a_property_that_a_client_of_librdkafka_has_of_its_own_is_rejected(name):
    for table in ("kafka", "target"):
        settings = load(f"{table}.librdkafka.{name}=xyzzy")
        connection = settings.kafka.connection if table == "kafka" else settings.target_connection
        with pytest.raises(BadInput, match=f"the jobs themselves set the property {name} of Kafka's client") as raised:
            make_consumer(connection, "a")
        assert "xyzzy" not in str(raised.value)


@pytest.mark.parametrize("name", ["bootstrap.servers", "acks", "enable.idempotence", "MAX.REQUEST.SIZE"])
def test_a_property_that_a_query_sets_for_javas_client_is_rejected(name):
    with pytest.raises(BadInput, match=f"the jobs themselves set the property {name} of Kafka's client"):
        sink_options(load(f"kafka.java.{name}=xyzzy"))


def test_a_mechanism_may_be_one_that_the_settings_do_not_know():
    loaded = load(*KERBEROS, "kafka.java.sasl.mechanism=GSSAPI", "kafka.java.sasl.jaas.config=a.Module required;")
    assert loaded.kafka.security.librdkafka() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.principal": "enforce",
    }
    assert loaded.kafka.security.java() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": "a.Module required;",
    }


def test_a_mechanism_only_for_librdkafka_is_reported_if_spark_needs_it_too():
    with pytest.raises(BadInput, match=r"^kafka\.java needs sasl\.mechanism and sasl\.jaas\.config"):
        kafka_options(load(*KERBEROS))


def test_spark_hides_the_options_of_its_sources_and_sinks():
    properties = spark_properties(load("kafka.java.client.rack=xyzzy"))
    for name in ("kafka.client.rack", "client.rack"):  # the latter in the connector's own log
        assert re.search(properties["spark.redaction.regex"], name)
    assert not re.search(spark_properties(load())["spark.redaction.regex"], "kafka.client.rack")


def test_an_error_of_javas_client_is_reported_without_the_value():
    settings = load("kafka.java.reconnect.backoff.ms=xyzzy-xyzzy")
    text = "org.apache.kafka.common.config.ConfigException: Invalid value xyzzy-xyzzy for configuration reconnect"
    with pytest.raises(MutationQuotaError) as raised, with_operator_advice(settings):
        raise QueryFailed("enforce", text)
    assert "Invalid value ******** for configuration reconnect" in str(raised.value)
    assert "xyzzy" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        'org.apache.kafka.common.errors.SaslAuthenticationException: {"status":"invalid_token"}',
        "org.apache.kafka.common.errors.IllegalSaslStateException: Unexpected handshake request with client mechanism",
        "org.apache.kafka.common.KafkaException: javax.security.auth.login.LoginException: java.io.IOException: 401",
    ],
)
def test_a_login_that_is_no_longer_accepted_is_reported_with_advice(text):
    advice = "Kafka at 127.0.0.1:9092 rejects the login, or a token has expired while the token server is unavailable"
    with pytest.raises(MutationQuotaError, match=advice), with_operator_advice(load()):
        raise QueryFailed("enforce", text)
