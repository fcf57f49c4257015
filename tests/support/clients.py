"""What the plain Kafka clients of tests share."""

from confluent_kafka.admin import AdminClient

QUIET = {"log_level": 2}
"""Silences librdkafka's own log, as the project's clients do.

A test may stop the broker before its clients. Each client would print to standard error that it cannot connect, in the
middle of pytest's output.
"""


def admin_of(settings):
    """Return an admin client of the cluster of a deployment."""
    return AdminClient({**QUIET, "bootstrap.servers": settings.kafka.bootstrap_servers})
