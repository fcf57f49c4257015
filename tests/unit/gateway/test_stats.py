"""Counts."""

from quota.gateway.mutations.operations import MutationResponse
from quota.gateway.stats import GatewayStats
from quota.wire.headers import RequestHeader


def test_an_address_that_bypasses_the_gateway_is_logged_once_and_counted_each_time(caplog):
    stats = GatewayStats()
    for _ in range(3):
        stats.add_foreign([("elsewhere", 9092)])
    assert stats.foreign_addresses == 3
    (logged,) = (each.getMessage() for each in caplog.records)
    assert logged == (
        "a broker advertises elsewhere:9092, which bypasses this gateway; the address is removed from responses; "
        "make gateway.listeners and the broker's advertised.listeners agree"
    )


def test_the_line_of_the_log_has_the_sums():
    stats = GatewayStats(connections=2, accepted=5, relayed=9, undecided=1)
    for key in (19, 20, 37):
        stats.add_mutation(RequestHeader(key, 0, 1, None), MutationResponse({}, 0, {"admitted": 1, "failed": 2}))
    assert str(stats) == (
        "connections: 2 open, 5 accepted; requests relayed: 9; topics: 3 admitted, 0 refused, 6 failed; "
        "without a decision in time: 1 request"
    )
