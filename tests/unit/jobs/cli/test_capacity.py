"""`capacity`: it asks first, and gives the probe topics of ten partitions."""

from types import SimpleNamespace

import pytest

from quota.kafka.topics import capacity, topic_admin
from quota.kafka.topics.capacity import Capacity
from tests.support.programs import run

CONNECT = ("--bootstrap-server", "test-kafka:9092")


@pytest.fixture
def probed(monkeypatch):
    """Return the topics of the probes that were started."""
    specs = []

    def measure(_admin, given, _stop, _tell):
        specs.append(given)
        return Capacity(25, 1234.5, 88.0, 88.0)

    cluster = SimpleNamespace(layout=lambda: SimpleNamespace(size=3))
    monkeypatch.setattr(
        topic_admin, "TopicAdmin", lambda connection, _: SimpleNamespace(connection=connection, **vars(cluster))
    )
    monkeypatch.setattr(capacity, "measure_capacity", measure)
    return specs


def test_without_consent_nothing_is_created(probed):
    ran = run("capacity", "--partitions", "25", *CONNECT)
    assert ran.returncode == 2
    assert "no terminal to ask for confirmation: add --yes" in ran.stderr
    ran = run("capacity", "--partitions", "25", "--dry-run", *CONNECT)
    assert ran.stdout.startswith("Would create and delete 25 partitions in topics mutation-quota-capacity-")
    assert ran.stdout.endswith(" on test-kafka:9092, a cluster of 3 brokers.\n")
    assert probed == []


def test_the_lower_rate_is_what_recommend_takes(probed):
    ran = run("capacity", "--partitions", "25", "--yes", *CONNECT)
    assert ran.stdout == (
        "25 partitions: created at 1,234.5/s and deleted at 88.0/s. Give the lower rate to recommend: --capacity 88.0\n"
    )
    ((first, second, third),) = probed
    assert (first.partitions, second.partitions, third.partitions) == (10, 10, 5)
    assert first.replication_factor == 3
    assert first.name.rpartition("-")[0] == third.name.rpartition("-")[0]
