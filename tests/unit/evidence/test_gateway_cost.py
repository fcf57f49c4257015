"""A request that fails over a route ends the measurement of the gateway's cost, and is never a figure."""

from unittest.mock import MagicMock

import pytest

from quota.errors import MutationQuotaError
from tests.evidence.gateway.cost.__main__ import goals
from tests.evidence.gateway.cost.routes import Route
from tests.evidence.gateway.requests import metadata


def route_to(answer):
    """A route to a broker whose clients get one answer."""
    broker = MagicMock()
    broker.connect.return_value.__enter__.return_value.call.return_value = answer
    return Route("through the gateway", broker, 1)


@pytest.mark.parametrize(
    "answer",
    [
        {"errorCode": 35},
        {"topics": [{"errorCode": 0}, {"errorCode": 3}]},
        {"topics": [{"partitions": [{"errorCode": 5}]}]},
    ],
)
def test_an_error_anywhere_in_a_response_is_raised(answer):
    with pytest.raises(MutationQuotaError, match="Metadata, through the gateway: "):
        route_to(answer).check(metadata("Metadata"))


def test_a_response_without_an_error_is_measured():
    route_to({"throttleTimeMs": 5, "topics": [{"errorCode": 0}]}).check(metadata("Metadata"))


def test_a_goal_is_missed_by_the_worst_route():
    calls = [
        {"call": call, "route": route, "above_ms": above}
        for call, route, above in [
            ("ApiVersions", "direct", None),
            ("ApiVersions", "gateway", 0.1),
            ("Metadata of a topic", "gateway", 0.3),
            ("ListOffsets", "gateway", 9.0),
        ]
    ]
    idle = {"plain": {"memory_each_kb": 5.0}, "sasl": {"memory_each_kb": 10.5}}
    moved = [{"transfer": "produce", "memory_growth_mb": growth} for growth in (None, 0.5, 2.0)]
    found = goals(calls, idle, [*moved, {"transfer": "fetch", "memory_growth_mb": 90.0}], [{"above_ms": 30.0}])
    assert {name: (goal["measured"], goal["met"]) for name, goal in found.items()} == {
        "call_ms": (0.3, False),
        "connection_kb": (10.5, False),
        "produce_mb": (2.0, True),
        "create_ms": (30.0, True),
    }
