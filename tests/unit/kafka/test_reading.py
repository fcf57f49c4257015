"""Reads that cannot succeed end with an error, and do not wait for ever."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import ClusterError
from quota.kafka import reading
from quota.records.quota import Window
from quota.settings.connection import Connection

KAFKA = Connection("kafka:9092")


class Unresponsive:
    """A consumer that yields these errors, and no record."""

    def __init__(self, *codes):
        self._errors = [KafkaError(code) for code in codes]

    def assign(self, _):
        pass

    def close(self):
        pass

    def poll(self, _):
        if not self._errors:
            return None
        error = self._errors.pop(0)
        return SimpleNamespace(error=lambda: error)

    def consume(self, *_):
        return []


@pytest.mark.parametrize(
    ("codes", "seconds", "expected"),
    [
        ([], 0.05, KafkaError._TIMED_OUT),  # noqa: SLF001
        ([KafkaError._TRANSPORT] * 1_000_000, 0.05, KafkaError._TRANSPORT),  # noqa: SLF001
        ([KafkaError.TOPIC_AUTHORIZATION_FAILED], 60, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        ([KafkaError._AUTO_OFFSET_RESET], 60, KafkaError._AUTO_OFFSET_RESET),  # noqa: SLF001
    ],
    ids=["no record", "no broker", "no permission", "records are deleted meanwhile"],
)
def test_a_topic_whose_end_is_never_reached_is_an_error(monkeypatch, codes, seconds, expected):
    monkeypatch.setattr(reading, "make_consumer", lambda *_: Unresponsive(*codes))
    monkeypatch.setattr(reading, "topic_partitions", lambda *_: [0])
    monkeypatch.setattr(reading, "offset_range", lambda *_: (0, 5))
    with pytest.raises(KafkaException) as raised:
        list(reading.read_topic(KAFKA, "decisions", seconds))
    assert raised.value.args[0].code() == expected


class Brokers:
    """An admin client of a cluster whose brokers have these configs."""

    def __init__(self, configs):
        self._configs = {name: SimpleNamespace(value=value) for name, value in configs.items()}

    def list_topics(self, **_):
        return SimpleNamespace(brokers={7: None, 8: None})

    def describe_configs(self, resources, **_):
        assert [resource.name for resource in resources] == ["7"]
        return dict.fromkeys(resources, SimpleNamespace(result=lambda: self._configs))


def test_the_window_is_that_of_a_broker(monkeypatch):
    configs = {"controller.quota.window.num": "100", "controller.quota.window.size.seconds": "2"}
    monkeypatch.setattr(reading, "AdminClient", lambda _: Brokers(configs))
    assert reading.read_window(KAFKA, 5.0) == Window(100, 2)


def test_a_broker_without_the_window_is_too_old(monkeypatch):
    monkeypatch.setattr(reading, "AdminClient", lambda _: Brokers({}))
    with pytest.raises(ClusterError, match=r"cannot read the window of Kafka at kafka:9092: .* requires Kafka 2\.7"):
        reading.read_window(KAFKA, 5.0)
