"""Health and readiness of a gateway."""

import time

import pytest

from jobs.metrics.health.gateway import GatewayHealth
from quota.gateway.stats import GatewayStats

HANGS = 11
"""Seconds without an iteration after which an event loop hangs; it has five iterations a second."""


@pytest.mark.parametrize(
    ("serves", "since_its_last_turn", "live", "ready"),
    [
        (False, None, True, False),  # it starts
        (True, 0, True, True),
        (True, HANGS, False, False),
        (False, 0, True, False),  # it is being stopped
        (False, HANGS, False, False),
    ],
)
def test_it_is_healthy_while_its_event_loop_runs_and_ready_while_it_accepts_connections(
    serves, since_its_last_turn, live, ready
):
    looped_at = 0.0 if since_its_last_turn is None else time.monotonic() - since_its_last_turn
    health = GatewayHealth(GatewayStats(is_serving=serves, looped_at=looped_at))
    assert (health.live().ok, health.ready().ok) == (live, ready)


def test_it_is_ready_even_without_decisions():
    """It still forwards everything else: unready, it would be removed and cut all clients off from their data."""
    assert GatewayHealth(GatewayStats(is_serving=True, looped_at=time.monotonic(), undecided=9)).ready().ok


def test_while_no_broker_answers_it_is_healthy_and_not_ready():
    stats = GatewayStats(is_serving=True, looped_at=time.monotonic(), broker_failure="kafka-1:9092: no answer")
    health = GatewayHealth(stats)
    assert (health.live().ok, health.ready().ok) == (True, False)
    assert health.ready().reason == "no broker responds: kafka-1:9092: no answer"
