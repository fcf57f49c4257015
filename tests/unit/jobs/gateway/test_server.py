"""The maximum number of a gateway's connections."""

from types import SimpleNamespace

from jobs.gateway.encryption import Encryption
from jobs.gateway.server import GatewayServer
from quota.settings.gateway import GatewaySettings
from tests.unit.gateway.play import make_context


def connection(peer="192.0.2.1"):
    return SimpleNamespace(channel=object(), peer=peer)


def test_a_connection_beyond_the_maximum_is_rejected_until_another_is_closed(gateway_protocol):
    """It is closed with the reason, and counts until it is closed itself, even if its end is reported twice."""
    made = GatewayServer(make_context(gateway_protocol), None, GatewaySettings(max_connections=2), Encryption())
    first, second, third = (connection() for _ in range(3))
    reason = "there are more than gateway.max_connections=2"
    assert [made.opened(each) for each in (first, second, third)] == [None, None, reason]
    for each in (third, first, first):
        made.closed(each)
    assert made.opened(connection()) is None
    assert (made.context.stats.connections, made.context.stats.accepted) == (2, 4)
