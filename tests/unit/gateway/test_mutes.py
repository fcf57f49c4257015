"""Mutes of channels, each by itself or by client."""

import pytest

from quota.gateway.mutes import Mutes

APP = ("alice", "app")


@pytest.fixture
def by_client():
    return Mutes("client")


def test_a_busy_channel_holds_one_request_until_it_is_answered():
    """It is due at once then, if it is not muted."""
    mutes = Mutes()
    assert mutes.offer("a", 0)
    assert not mutes.offer("a", 1)
    assert (list(mutes.due(5)), mutes.next_at()) == ([], None)
    mutes.answered("a", None, 0, 6)
    assert list(mutes.due(6)) == ["a"]


def test_a_muted_channel_is_due_when_its_time_is_over():
    """It is not due a millisecond earlier."""
    mutes = Mutes()
    mutes.offer("a", 0)
    mutes.answered("a", APP, 100, 0)
    assert not mutes.offer("a", 10)
    assert (mutes.muted("a", 99), mutes.next_at(), list(mutes.due(99))) == (True, 100, [])
    assert list(mutes.due(100)) == ["a"]


def test_a_channel_that_closes_is_never_due():
    """Muted or busy."""
    mutes = Mutes()
    mutes.offer("a", 0)
    mutes.answered("a", APP, 100, 0)
    mutes.offer("a", 1)
    mutes.close("a", APP, 2)
    assert (list(mutes.due(1000)), mutes.next_at()) == ([], None)


def test_a_shorter_mute_does_not_end_a_longer_one(by_client):
    """Two connections of one client have separate channels."""
    for channel in ("a", "b"):
        by_client.join(channel, APP, 0)
        by_client.offer(channel, 0)
    by_client.answered("a", APP, 1000, 0)
    by_client.answered("b", APP, 10, 5)
    by_client.join("c", APP, 500)
    assert [by_client.muted(channel, 999) for channel in "abc"] == [True, True, True]
    assert [by_client.muted(channel, 1000) for channel in "abc"] == [False, False, False]


def test_clients_of_a_user_are_muted_separately(by_client):
    """A client is a user and a client-id, which may be missing."""
    others = [("alice", "app2"), ("bob", "app"), ("alice", None), ("alice", "")]
    for number, client in enumerate([APP, *others]):
        by_client.join(number, client, 0)
    by_client.offer(0, 0)
    by_client.answered(0, APP, 1000, 0)
    assert [by_client.muted(number, 1) for number in range(5)] == [True, False, False, False, False]


def test_disconnected_clients_that_are_not_muted_are_forgotten(by_client):
    """A thousand client-ids, one after the other."""
    for number in range(1000):
        client = ("alice", f"app-{number}")
        by_client.join(number, client, number)
        by_client.offer(number, number)
        by_client.answered(number, client, 1, number)
        by_client.close(number, client, number)
    by_client.join("last", APP, 5000)
    by_client.close("last", APP, 5000)
    assert held(by_client) == 0


def held(mutes):
    """The number of entries in all containers of an object."""
    return sum(len(value) for value in vars(mutes).values() if isinstance(value, dict | set | list))
