"""The gateway's ports, the brokers behind them, and what clients are told."""

import pytest

from jobs.gateway.listeners import Listener, plan_listeners
from quota.errors import BadInput
from quota.settings.gateway import GatewaySettings

TOLD = {2: ("kafka-2", 9092), 1: ("kafka-1", 9092), 5: ("kafka-5", 9093)}


def test_brokers_get_ports_in_the_order_of_their_ids():
    """From the first port on; answers are rewritten."""
    listeners, addresses = plan_listeners(GatewaySettings(first_port=20_000, advertised_host="gw"), TOLD)
    assert listeners == [
        Listener(20_000, ("kafka-1", 9092)),
        Listener(20_001, ("kafka-2", 9092)),
        Listener(20_002, ("kafka-5", 9093)),
    ]
    assert addresses.rewritten


def test_brokers_that_tell_the_gateways_addresses_are_left_as_they_are():
    """Each by a listener of its own."""
    settings = GatewaySettings(
        advertised_by="brokers", advertised_host="gw", listeners=["20001=kafka-1:9094", "20002=kafka-2:9094"]
    )
    listeners, addresses = plan_listeners(settings, {1: ("gw", 20_001), 2: ("gw", 20_002)})
    assert [each.broker for each in listeners] == [("kafka-1", 9094), ("kafka-2", 9094)]
    assert not addresses.rewritten


@pytest.mark.parametrize(
    ("settings", "told", "expected"),
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
            {"advertised_by": "brokers", "listeners": ["20001=kafka-1:9094"], "advertised_host": "gw"},
            {1: ("gw", 20_001), 2: ("gw", 20_002)},
            "brokers advertise gw:20002",
        ),
        (
            {"listeners": ["20001=kafka-1:9092"]},
            {1: ("kafka-1", 9092), 2: ("kafka-2", 9092)},
            (
                "brokers advertise kafka-2:9092, but the gateway's addresses are kafka-1:9092; "
                "gateway.listeners must name each"
            ),
        ),
        ({"first_port": 65_535}, TOLD, "gateway.first_port=65535 leaves too few ports for 3 brokers"),
        ({"address": "0.0.0.0"}, TOLD, "gateway.advertised_host"),  # noqa: S104 it is refused
        ({"address": "::"}, TOLD, "gateway.advertised_host"),
    ],
)
def test_settings_that_lead_clients_past_the_gateway_are_refused(settings, told, expected):
    """With a line that says what is told, and what to change."""
    with pytest.raises(BadInput) as error:
        plan_listeners(GatewaySettings(**settings), told)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
