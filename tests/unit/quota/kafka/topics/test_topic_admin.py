"""What librdkafka answers about topics, and transactions that hide their records."""

from concurrent.futures import Future
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from quota.errors import ClusterError
from quota.kafka.topics import topic_admin
from quota.kafka.topics.topic_admin import OpenTransactions, TopicAdmin
from quota.settings.connection import Connection

A, B = ("a", 0), ("b", 1)


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


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        ([({A: 9}, {A: 5}), ({A: 9}, {A: 5})], 5),
        # the offset of a new transaction, of one that has ended, or none
        ([({A: 9}, {A: 5}), ({A: 9}, {A: 7})], None),
        ([({A: 9}, {A: 5}), ({A: 9}, {A: 9})], None),
        ([({A: 9}, {A: 12}), ({A: 9}, {A: 12})], None),
        # of a partition that is read now for the first time, or no longer
        ([({A: 9}, {A: 9}), ({A: 9, B: 5}, {A: 9, B: 2})], None),
        ([({B: 9}, {B: 2}), ({}, {})], None),
    ],
)
def test_a_transaction_that_was_open_at_the_last_look_is_named(looks, since):
    """One of a few ms, as observers and appliers write, is never open at two looks with the same offset."""
    given = iter(stable for _, stable in looks)
    transactions = OpenTransactions(SimpleNamespace(connection="k:9092", offsets=lambda *_, **__: next(given)))
    (first, then) = (transactions.look(ends) for ends, _ in looks)
    assert not first
    assert then == (
        f"a transaction has been open on a-0 since offset {since}; unless it ends by itself, end it: "
        f"kafka-transactions.sh --bootstrap-server k:9092 abort --topic a --partition 0 --start-offset {since}"
        if since
        else ""
    )
