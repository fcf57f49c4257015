"""The measurement of the gateway's cost: a request that fails is never a figure, and a goal is met or not."""

from unittest.mock import MagicMock

import pytest

from quota.errors import MutationQuotaError
from tests.evidence.gateway.cost.__main__ import costs, shares
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


def test_a_goal_is_missed_by_the_worst_call_or_kind_of_connection():
    calls = [
        {"call": "Metadata", "route": "direct", "above_ms": None},
        {"call": "Metadata", "route": "gateway", "above_ms": 0.2},
        {"call": "ApiVersions", "route": "gateway", "above_ms": 0.1},
        {"call": "ListOffsets", "route": "gateway", "above_ms": 9.0},
    ]
    idle = {kind: {"memory_each_kb": each} for kind, each in (("plain", 9.0), ("sasl", 10.1), ("tls", 100.0))}
    assert {name: (goal["measured"], goal["met"]) for name, goal in costs(calls, idle).items()} == {
        "call_ms": (0.2, True),
        "connection_kb": (10.1, False),
        "tls_connection_kb": (100.0, True),
    }


@pytest.mark.parametrize(("produced", "consumed", "met"), [(0.8, 0.9, True), (0.79, 1.0, False), (1.0, 0.79, False)])
def test_the_goal_of_records_is_missed_if_producing_or_consuming_misses_it(produced, consumed, met):
    """It counts with its share of the direct way with the same encryption."""
    rows = [
        {"encryption": encryption, "route": route, "produced_of_direct": made, "consumed_of_direct": read}
        for encryption, route, made, read in (
            ("plaintext", "one gateway", 0.9, 0.9),
            ("TLS", "direct", 1.0, 1.0),
            ("TLS", "one gateway", produced, consumed),
        )
    ]
    goals = shares(rows)
    assert (goals["records_plaintext"]["met"], goals["records_tls"]["met"]) == (True, met)
