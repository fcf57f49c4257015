"""Measures the cost of the gateway, compared with a direct connection: `make gateway-cost`."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic

from tests.evidence.command import Notify, run
from tests.evidence.gateway.cost.calls import idle_connections, latencies, requests
from tests.evidence.gateway.cost.records import PACED, RECORD_BYTES, TOOLS, records
from tests.evidence.gateway.cost.routes import DIRECT, Row, routes
from tests.evidence.gateway.cost.size import FULL, SMOKE, Size
from tests.evidence.gateway.ground import Ground, on_ground
from tests.evidence.machine import load, machine

PAGE = Path(__file__).with_name("page.md.in")
_TOPIC = "called"


def measure(where: Ground, size: Size, notify: Notify) -> dict[str, Any]:
    """Measure all figures, and return them.

    Raises:
        MutationQuotaError: A gateway or a call failed.
    """
    before = load()
    notify("starting gateways")
    settings = where.deployment("cost")
    with routes(where, settings) as ways:
        where.admin.create_topics([NewTopic(_TOPIC, 1)])[_TOPIC].result()
        calls = requests(_TOPIC)
        notify("calls, one at a time")
        single = [row for request in calls for row in latencies([ways.direct, ways.plain], request, size)]
        notify("idle connections")
        idle = {
            "plain": idle_connections(ways.plain, calls[1], size),
            "sasl": idle_connections(ways.authenticating, calls[1], size, authenticates=True),
            "tls": idle_connections(ways.encrypting, calls[1], size),
        }
    notify("Kafka's own performance tools")
    with routes(where, settings) as ways:  # gateways that hold nothing of the idle connections
        streamed = records(ways, size)
    return {
        "size": asdict(size) | {"tools": TOOLS, "record_bytes": RECORD_BYTES, "paced": PACED},
        "goals": costs(single, idle) | shares(streamed),
        "calls": single,
        "idle": idle,
        "records": streamed,
        "load": {"before": before, "after": load()},
        "on": machine(),
    }


def _play(where: Ground, options: Namespace, notify: Notify) -> dict[str, Any]:
    return measure(where, SMOKE if options.smoke else FULL, notify)


def costs(calls: Sequence[Row], idle: dict[str, Row]) -> dict[str, dict[str, Any]]:
    """Return the goals of calls and connections; ListOffsets has none, because nothing of it is parsed."""
    measured = {
        "call_ms": (
            max(row["above_ms"] for row in calls if row["route"] != DIRECT and row["call"] != "ListOffsets"),
            0.2,
        ),
        "connection_kb": (max(idle[kind]["memory_each_kb"] for kind in ("plain", "sasl")), 10.0),
        "tls_connection_kb": (idle["tls"]["memory_each_kb"], 100.0),
    }
    return {
        name: {"measured": value, "at_most": most, "met": value <= most} for name, (value, most) in measured.items()
    }


def shares(streamed: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Return the goals of records through one gateway, as shares of direct ones."""
    compared: dict[str, dict[str, Any]] = {}
    for encryption, least in (("plaintext", 0.9), ("TLS", 0.8)):
        row = next(row for row in streamed if (row["encryption"], row["route"]) == (encryption, "one gateway"))
        measured = {kind: row[f"{kind}_of_direct"] for kind in ("produced", "consumed")}
        met = min(measured.values()) >= least
        compared[f"records_{encryption.lower()}"] = measured | {"at_least": least, "met": met}
    return compared


if __name__ == "__main__":
    run("gateway-cost", on_ground(_play), PAGE)
