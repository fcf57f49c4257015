"""A short form of `make gateway-cost`, which checks the measurement and not the cost."""

from tests.evidence.gateway.cost.__main__ import measure
from tests.evidence.gateway.cost.page import Plan, page

TINY = Plan(calls=10, rounds=1, seconds=0.1, transfers=1, connections=20, idle=0.2, mutations=2, topics=30, listings=2)
WAYS = ["direct", "gateway, nothing rewritten", "gateway, addresses rewritten"]


def test_the_cost_of_the_gateway_is_measured_against_a_direct_connection():
    figures = measure(TINY, [], lambda _: None)
    assert [list(ways) for ways in figures.calls.values()] == [WAYS] * 3
    assert all(each.per_second > 0 for ways in figures.at_once.values() for each in ways.values())
    assert {name: [each.bytes for each in ways.values()] for name, ways in figures.transfers.items()} == {
        "produce": [90_000_000] * 3,
        "fetch": [90_000_000] * 3,
    }
    assert [each.connections for each in figures.idle] == [20, 20]
    assert [each.name for each in figures.mutations] == ["create 1", "delete 1", "create 50", "delete 50"]
    assert all(each.through > each.decision > 0 for each in figures.mutations)
    assert [each.bytes > 30 * 12 * 20 for each in figures.listings.values()] == [True] * 3
    assert page(figures).count("| yes |") + page(figures).count("| **no** |") == 4
