"""Settings of another cluster, used with the embedded broker."""

from jobs.sandbox.broker import with_plaintext_cluster
from quota.settings import load_settings


def test_the_credentials_of_another_cluster_are_not_used():
    given = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=ops"]
    given += ["kafka.sasl_password=secret", "kafka.target_servers=elsewhere:9092", "kafka.timeout_seconds=7"]
    settings = with_plaintext_cluster(load_settings(given, environment={}, with_default_file=False), "127.0.0.1:1")
    for connection in (settings.kafka.connection, settings.target_connection):
        assert connection.librdkafka() == {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "PLAINTEXT"}
    assert settings.kafka.timeout_seconds == 7
