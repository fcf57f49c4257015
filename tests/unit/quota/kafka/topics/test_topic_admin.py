"""What librdkafka answers about topics."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from quota.errors import ClusterError
from quota.kafka.topics import topic_admin
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings.connection import Connection


def answered(offset):
    future = Future()
    future.set_result(Mock(offset=offset))
    return future


def test_an_offset_that_no_leader_has_told_is_an_error_and_no_end(monkeypatch):
    """While a leader moves, librdkafka answers -1001 without an error; a job would take it for lost records."""
    offsets = {TopicPartition("requests", 0): answered(45), TopicPartition("requests", 1): answered(OFFSET_INVALID)}
    client = Mock(list_offsets=lambda *_, **__: offsets)
    monkeypatch.setattr(topic_admin, "AdminClient", lambda *_, **__: client)
    with pytest.raises(ClusterError, match=r"read the offsets of topics at .*[Ll]eader not available"):
        TopicAdmin(Connection("broker:9092"), 1).offsets([("requests", 0), ("requests", 1)])
