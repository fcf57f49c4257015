"""The maximum number of a gateway's connections."""

from types import SimpleNamespace

import pytest

from jobs.gateway.encryption import Encryption
from jobs.gateway.server import GatewayServer
from quota.settings.gateway import GatewaySettings
from tests.unit.gateway.play import make_context


@pytest.fixture
def server(gateway_protocol):
    """Return a function that creates a server from settings; nothing listens."""

    def _make(**settings):
        return GatewayServer(make_context(gateway_protocol), None, GatewaySettings(**settings), Encryption())

    return _make


def connection(peer="192.0.2.1"):
    return SimpleNamespace(channel=object(), peer=peer)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_connections": 2}, "there are more than gateway.max_connections=2"),
        ({"max_connections_per_ip": 2}, "this address has more than gateway.max_connections_per_ip=2"),
    ],
)
def test_a_connection_beyond_the_maximum_is_rejected_until_another_is_closed(server, settings, reason):
    """It is closed with the reason, and counts until it is closed itself."""
    made = server(**settings)
    first, second, third = (connection() for _ in range(3))
    assert [made.opened(each) for each in (first, second, third)] == [None, None, reason]
    made.closed(third)
    made.closed(first)
    assert made.opened(connection()) is None
    assert (made.context.stats.connections, made.context.stats.accepted) == (2, 4)


def test_addresses_are_counted_separately(server):
    """They are forgotten with their last connection, even if its end is reported twice."""
    made = server(max_connections_per_ip=1)
    known = [connection(f"192.0.2.{number}") for number in range(50)]
    assert [made.opened(each) for each in known] == [None] * 50
    for each in known + known:
        made.closed(each)
    assert made.context.stats.connections == 0
    assert [made.opened(connection(f"192.0.2.{number}")) for number in range(50)] == [None] * 50
