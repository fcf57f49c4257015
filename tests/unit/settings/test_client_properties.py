"""Further properties of Kafka's clients: passed unchanged, secret, and none that the jobs determine."""

import re

import pytest

from jobs.enforce.query import sink_options
from jobs.spark.failures import QueryFailed
from jobs.spark.kafka_source import kafka_options
from jobs.spark.operator_advice import with_operator_advice
from jobs.spark.properties import spark_properties
from quota.errors import BadInput, MutationQuotaError
from quota.kafka.clients import client_config
from quota.kafka.reading import make_consumer
from quota.settings import load_settings
from quota.settings.listing import listed_settings
from quota.settings.loading import load_with_origins

KERBEROS = [
    "kafka.security_protocol=SASL_PLAINTEXT",
    "kafka.librdkafka.sasl.mechanisms=GSSAPI",
    "kafka.librdkafka.sasl.kerberos.principal=enforce",
]


def load(*overrides):
    return load_settings(overrides, environment={}, with_default_file=False)


def test_properties_override_the_settings():
    found = load(
        "kafka.security_protocol=SSL",
        "kafka.librdkafka.ssl.endpoint.identification.algorithm=none",
        "kafka.librdkafka.client.rack=a",
        "kafka.java.client.rack=b",
        "kafka.java.ssl.endpoint.identification.algorithm=",
    )
    assert found.kafka.security.librdkafka() == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "client.rack": "a",
    }
    assert kafka_options(found) == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.client.rack": "b",
    }


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


def test_other_properties_are_passed_to_the_client():
    settings = load("kafka.librdkafka.client.rack=x", "kafka.java.compression.type=gzip")
    assert client_config(settings.kafka.connection)["client.rack"] == "x"
    assert sink_options(settings)["kafka.compression.type"] == "gzip"
    assert sink_options(load())["kafka.compression.type"] == "zstd"


def test_a_mechanism_may_be_one_that_the_settings_do_not_know():
    found = load(*KERBEROS, "kafka.java.sasl.mechanism=GSSAPI", "kafka.java.sasl.jaas.config=a.Module required;")
    assert found.kafka.security.librdkafka() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.principal": "enforce",
    }
    assert found.kafka.security.java() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": "a.Module required;",
    }


def test_a_mechanism_only_for_librdkafka_is_reported_if_spark_needs_it_too():
    with pytest.raises(BadInput, match=r"^kafka\.java needs sasl\.mechanism and sasl\.jaas\.config"):
        kafka_options(load(*KERBEROS))


def test_all_values_are_masked():
    given = ["kafka.librdkafka.client.rack=xyzzy", "kafka.java.some.file=xyzzy"]
    loaded = load_with_origins(given, None, {}, with_default_file=False)
    found = {each.name: (each.value, each.origin) for each in listed_settings(loaded)}
    assert found["kafka.librdkafka.client.rack"] == ("********", "option")
    assert found["kafka.java.some.file"] == ("********", "option")
    assert found["target.librdkafka.client.rack"] == ("********", "kafka")
    for each in (found, loaded, loaded.origins, loaded.settings.kafka.connection, loaded.settings.target_connection):
        assert "xyzzy" not in f"{each!r} {each}"


def test_spark_hides_the_options_of_its_sources_and_sinks():
    properties = spark_properties(load("kafka.java.client.rack=xyzzy"))
    for name in ("kafka.client.rack", "client.rack"):  # the latter in the connector's own log
        assert re.search(properties["spark.redaction.regex"], name)
    assert not re.search(spark_properties(load())["spark.redaction.regex"], "kafka.client.rack")


def test_the_target_has_the_properties_of_kafka_or_its_own():
    rack = "kafka.librdkafka.client.rack=a"
    assert load(rack).target_connection.librdkafka()["client.rack"] == "a"
    own = load(rack, "target.librdkafka.client.id=b").target_connection.librdkafka()
    assert (own.get("client.rack"), own["client.id"]) == (None, "b")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("no.such.property=xyzzy", 'librdkafka refuses a property: No such configuration property: "no.such.property"'),
        ("socket.timeout.ms=xyzzy-", "librdkafka refuses a property: Invalid value for configuration property"),
    ],
)
def test_a_property_rejected_by_librdkafka_is_one_line_without_its_value(given, error):
    with pytest.raises(BadInput) as raised:
        client_config(load(f"kafka.librdkafka.{given}").kafka.connection)
    assert error in str(raised.value)
    assert "xyzzy" not in str(raised.value)
    assert "\n" not in str(raised.value)


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
