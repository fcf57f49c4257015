"""The smoke forms of the gateway's evidence, on one broker and in one session of Spark: each section of them."""

import json
import re

import pytest

from jobs.sandbox.broker import JAVA_OPTIONS
from jobs.storage.run import Run
from tests.evidence.gateway.conformance import __main__ as conformance
from tests.evidence.gateway.conformance.overload import measure_beside_debt
from tests.evidence.gateway.conformance.sides import USERS, conformance_settings, sides
from tests.evidence.gateway.cost import __main__ as cost
from tests.evidence.gateway.cost.size import SMOKE
from tests.evidence.gateway.ground import ground, query_of
from tests.evidence.gateway.kills import __main__ as kills
from tests.evidence.gateway.kills.verdict import remembering
from tests.evidence.gateway.soak import __main__ as long
from tests.evidence.report import as_json, render
from tests.support.checkout import CHECKOUT

WAYS = ["direct", "gateway, nothing rewritten", "gateway, addresses rewritten"]

pytestmark = pytest.mark.timeout(600)  # a busy machine is no failure


@pytest.fixture(scope="module")
def where(base_settings, tmp_path_factory):
    """The broker of all programs."""
    options = [*JAVA_OPTIONS, "-Xmx512m"]
    with ground(base_settings, tmp_path_factory.mktemp("gateway"), USERS, options) as running:
        yield running


def page(program, results):
    """The page of results as they are printed."""
    return render(program.PAGE.read_text(), json.loads(as_json(results)))


@pytest.mark.filterwarnings("ignore:.* is deprecated. Use files:DeprecationWarning")  # kafka-python
def test_clients_see_the_same_at_the_gateway_and_at_a_broker(where, spark):
    """Only the listed differences remain; what is built or installed first is part of the long form."""
    settings = conformance_settings(where)
    with query_of(Run.on(spark, settings)) as query, sides(where, settings, query) as pair:
        results = conformance.play_all(pair, conformance.OFFLINE, settings, print, conformance.SMOKE_SLOW)
        beside_debt = measure_beside_debt(pair, conformance.SMOKE_SECONDS)

    assert results["wrong"] == [], "\n".join(results["wrong"])
    assert set(results["missing"]) <= {"Kafka Streams", "kafka-python"}
    assert results["observations"] > 190
    assert results["decisions"] > 90
    assert {row["difference"] for row in results["differences"]} <= listed_differences()
    assert len(beside_debt) == 4
    assert all(row["gateway_ms"] > 0 < row["broker_ms"] for row in beside_debt)


def listed_differences():
    """The names of the listed differences, without links."""
    rows = (CHECKOUT / "docs/explanation/differences-from-kafka.md").read_text().splitlines()
    return {re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row.split(" | ")[0].strip("| ")) for row in rows if row[:1] == "|"}


def test_the_cost_of_the_gateway_is_measured_against_a_direct_connection(where):
    """The measurement is checked, and not the cost."""
    results = cost.measure(where, SMOKE, print)

    assert [row["route"] for row in results["calls"]] == WAYS * 3
    assert [(row["route"], row["in_flight"]) for row in results["concurrent"]] == [
        (way, in_flight) for in_flight in (1, 64) for way in WAYS
    ] * 3
    assert min(row["per_second"] for row in results["concurrent"]) > 0
    assert [idle["connections"] for idle in results["idle"].values()] == [20, 20, 20]
    assert [(row["encryption"], row["route"]) for row in results["records"]] == [
        (encryption, route) for encryption in ("plaintext", "TLS") for route in ("direct", "one gateway")
    ]
    assert min(row[key] for row in results["records"] for key in ("produced_mb_s", "consumed_mb_s")) > 0
    assert len(results["bystanders"]) == 4
    assert [row["request"] for row in results["mutations"]] == [
        "create 1 topic",
        "delete 1 topic",
        "create 50 topics",
        "delete 50 topics",
    ]
    assert all(row["gateway_ms"] > 0 < row["decision_ms"] for row in results["mutations"])
    assert [row["answer_kb"] > 10 * 12 * 0.02 for row in results["listings"]] == [True] * 3
    text = page(cost, results)
    assert text.count(" | yes |") + text.count(" | no |") == 7


def test_a_killed_gateway_forwards_nothing_undecided_and_charges_recognizable_requests_once(where, spark):
    """The real job decides; the clients retry, and none waits longer than its own time limit."""
    settings = remembering(where.deployment("kills"))
    with query_of(Run.on(spark, settings)):
        results = kills.under_kills(where, settings, kills.SMOKE, 599, print)

    assert results["wrong"] == [], "\n".join(results["wrong"])
    assert results["broken"] > 0
    assert results["steps"]["created"] > 5
    assert results["decisions"] > 10
    assert f"| kills | {kills.SMOKE.kills} |" in page(kills, results)


@pytest.mark.nightly  # it takes minutes on a busy machine
def test_clients_over_tls_lose_no_call_while_certificate_and_job_change(where, spark):
    """Those of a broker that restarts are lost, as at the broker."""
    results = long.soak(where, Run.on(spark, remembering(where.deployment("soak"))), long.SMOKE, 599, print)

    assert results["wrong"] == [], "\n".join(results["wrong"])
    assert {"add_broker", "renew_certificate", "restart_broker", "restart_job"} == set(results["events"])
    assert min(results[name] for name in ("visits", "records", "decisions")) > 5
    assert "| restart_broker | " in page(long, results)
