"""The embedded broker beside settings that are for another cluster."""

from jobs.sandbox.broker import at
from quota.settings.loading import load_settings


def test_it_is_spoken_to_without_the_credentials_of_another_cluster():
    given = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=ops"]
    given += ["kafka.sasl_password=secret", "kafka.target_servers=elsewhere:9092", "kafka.timeout_seconds=7"]
    settings = at(load_settings(given, environment={}, with_default_file=False), "127.0.0.1:1")
    for connection in (settings.kafka.connection, settings.target_connection):
        assert connection.librdkafka() == {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "PLAINTEXT"}
    assert settings.kafka.timeout_seconds == 7
