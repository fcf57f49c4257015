"""Reads of a cluster by an AdminClient."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import ClusterError
from quota.kafka import reading
from quota.kafka.reading import read_window
from quota.records.quota import Window
from quota.settings.connection import Connection

NUM, SIZE = "controller.quota.window.num", "controller.quota.window.size.seconds"


def window_of(monkeypatch, nodes, answer):
    """Return the window that is read from a cluster with these nodes, whose brokers answer with configs or an error."""

    class Admin:
        def __init__(self, _config):
            pass

        def list_topics(self, timeout):
            return SimpleNamespace(brokers=dict.fromkeys(nodes), timeout=timeout)

        def describe_configs(self, resources, request_timeout):
            (resource,) = resources
            assert (resource.name, request_timeout) == ("7", 5)
            future = Future()
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result({name: SimpleNamespace(value=value) for name, value in answer.items()})
            return {resource: future}

    monkeypatch.setattr(reading, "AdminClient", Admin)
    return read_window(Connection("k:1"), 5)


def test_the_window_is_that_of_a_broker(monkeypatch):
    assert window_of(monkeypatch, [9, 7], {NUM: "100", SIZE: "2", "password": None}) == Window(100, 2)


@pytest.mark.parametrize(
    ("nodes", "answer", "reason"),
    [
        ([7], KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), "cannot read the window of Kafka"),
        ([7], {"log.dirs": "/"}, "requires Kafka 2.7"),
        ([], {}, "the cluster's metadata contain no brokers"),
    ],
)
def test_a_cluster_that_does_not_tell_its_window_is_an_error(monkeypatch, nodes, answer, reason):
    with pytest.raises(ClusterError, match=reason):
        window_of(monkeypatch, nodes, answer)
