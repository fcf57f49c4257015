"""The gateway's ports, their brokers, and the addresses that clients get."""

import pytest

from jobs.gateway.listeners import Listener, plan_listeners
from quota.errors import BadInput
from quota.settings.gateway import GatewaySettings

ADVERTISED = {2: ("kafka-2", 9092), 1: ("kafka-1", 9092), 5: ("kafka-5", 9093)}


def test_a_brokers_port_follows_from_its_node_id_alone():
    """A broker that is down at a start shifts no other; responses are rewritten."""
    settings = GatewaySettings(first_port=20_000, advertised_host="gw")
    listeners, addresses = plan_listeners(settings, ADVERTISED)
    assert listeners == [
        Listener(20_000, ("kafka-1", 9092)),
        Listener(20_001, ("kafka-2", 9092)),
        Listener(20_004, ("kafka-5", 9093)),
    ]
    assert addresses.rewritten

    without_first, _ = plan_listeners(settings, {node: ADVERTISED[node] for node in (2, 5)})
    assert without_first == listeners[1:]
    with_zero, _ = plan_listeners(settings, {0: ("kafka-0", 9092), **ADVERTISED})
    assert with_zero == [Listener(19_999, ("kafka-0", 9092)), *listeners]


def test_brokers_that_advertise_the_gateway_are_left_unchanged():
    """Each broker has a separate listener."""
    settings = GatewaySettings(
        advertised_by="brokers", advertised_host="gw", listeners=["20001=kafka-1:9094", "20002=kafka-2:9094"]
    )
    listeners, addresses = plan_listeners(settings, {1: ("gw", 20_001), 2: ("gw", 20_002)})
    assert [listener.broker for listener in listeners] == [("kafka-1", 9094), ("kafka-2", 9094)]
    assert not addresses.rewritten


@pytest.mark.parametrize(
    ("settings", "advertised", "expected"),
    [
        (
            {"advertised_by": "brokers", "listeners": ["20001=kafka-1:9094"], "advertised_host": "gw"},
            {1: ("kafka-1", 9092)},
            (
                "brokers advertise kafka-1:9092, but the gateway's addresses are gw:20001; "
                "the brokers' advertised.listeners must"
            ),
        ),
        (
            {"listeners": ["20001=kafka-1:9092"]},
            {1: ("kafka-1", 9092), 2: ("kafka-2", 9092)},
            (
                "brokers advertise kafka-2:9092, but the gateway's addresses are kafka-1:9092; "
                "gateway.listeners must name each"
            ),
        ),
        ({"first_port": 65_535}, ADVERTISED, "the broker with node id 2 would have port 65536; give its port in"),
        ({"first_port": 1}, {0: ("kafka-0", 9092)}, "the broker with node id 0 would have port 0; give its port in"),
        ({"address": "0.0.0.0"}, ADVERTISED, "gateway.advertised_host"),  # noqa: S104 it is rejected
    ],
)
def test_settings_with_which_clients_bypass_the_gateway_are_rejected(settings, advertised, expected):
    """The line has the advertised address, and what to change."""
    with pytest.raises(BadInput) as error:
        plan_listeners(GatewaySettings(**settings), advertised)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
