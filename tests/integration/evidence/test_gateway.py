"""The smoke forms of the gateway's evidence, on one broker and in one session of Spark: each section of them."""

import json
import re

import pytest

from jobs.sandbox.broker import JAVA_OPTIONS
from jobs.storage.files import DeploymentSession
from tests.evidence.gateway.conformance import __main__ as conformance
from tests.evidence.gateway.conformance.overload import measure_beside_debt, measure_reconnecting
from tests.evidence.gateway.conformance.sides import USERS, conformance_settings, sides
from tests.evidence.gateway.cost import __main__ as cost
from tests.evidence.gateway.cost.records import APART
from tests.evidence.gateway.cost.size import SMOKE
from tests.evidence.gateway.ground import ground, query_of
from tests.evidence.gateway.kills import __main__ as kills
from tests.evidence.gateway.kills.verdict import remembering
from tests.evidence.report import as_json, render
from tests.support.checkout import CHECKOUT

TOO_FAR = 10.0
"""A figure that misses its goal by this factor is a fault, and not the load of the machine."""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]  # a busy machine is no failure


@pytest.fixture(scope="module")
def where(base_settings, tmp_path_factory):
    """The broker of all programs."""
    options = [*JAVA_OPTIONS, "-Xmx512m"]
    with ground(base_settings, tmp_path_factory.mktemp("gateway"), USERS, options) as running:
        yield running


def page(program, results):
    """The page of results as they are printed."""
    return render(program.PAGE.read_text(), json.loads(as_json(results)))


def test_clients_see_the_same_at_the_gateway_and_at_a_broker(where, spark):
    """Only the listed differences remain; what is built or installed first is part of the long form."""
    settings = conformance_settings(where)
    with query_of(DeploymentSession.on(spark, settings)) as query, sides(where, settings, query) as pair:
        results = conformance.play_all(pair, conformance.OFFLINE, settings, print, conformance.SMOKE_SLOW)
        beside_debt = measure_beside_debt(pair, conformance.SMOKE_SECONDS)
        strict, permissive = measure_reconnecting(pair, conformance.SMOKE_SECONDS)

    assert results["missing"] == {}
    assert results["wrong"] == [], "\n".join(results["wrong"])
    assert results["observations"] > 125
    assert results["decisions"] > 60
    assert {row["difference"] for row in results["differences"]} <= listed_differences()
    assert len(beside_debt) == 4
    assert max(row["ratio"] for row in beside_debt) < TOO_FAR
    assert (strict["broker"], strict["gateway"]) == (1, 1)
    assert permissive["gateway"] in {1, 2}  # the second one is held


def listed_differences():
    """The names of the listed differences, without links."""
    rows = (CHECKOUT / "docs/explanation/differences-from-kafka.md").read_text().splitlines()
    return {re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row.split(" | ")[0].strip("| ")) for row in rows if row[:1] == "|"}


def test_the_gateway_is_not_far_from_the_goals_of_its_cost(where):
    """Each section is measured against a direct connection, and is on the page."""
    results = cost.measure(where, SMOKE, print)

    assert [row["route"] for row in results["calls"]] == ["direct", "gateway"] * 3
    assert [(row["encryption"], row["route"]) for row in results["records"]] == [
        (encryption, route) for encryption in ("plaintext", "TLS", APART) for route in ("direct", "one gateway")
    ]
    goals = results["goals"]
    for name in ("call_ms", "connection_kb", "tls_connection_kb"):
        assert goals[name]["measured"] < TOO_FAR * goals[name]["at_most"], name
    for name in ("records_plaintext", "records_tls"):
        assert min(goals[name][kind] for kind in ("produced", "consumed")) > goals[name]["at_least"] / TOO_FAR, name
    text = page(cost, results)
    assert text.count(" | yes |") + text.count(" | no |") == len(goals)


def test_a_killed_gateway_forwards_nothing_undecided_and_charges_recognizable_requests_once(where, spark):
    """The real job decides, and is restarted, too; the clients retry, and none waits longer than its own time limit."""
    job = DeploymentSession.on(spark, remembering(where.deployment("kills")))
    results = kills.under_kills(where, job, kills.SMOKE, 599, print)

    assert results["wrong"] == [], "\n".join(results["wrong"])
    assert results["broken"] > 0
    assert results["charged_minus_made"] == 0
    assert results["steps"]["created"] > 5
    assert results["decisions"] > 10
    assert results["changes"] == 1
    assert f"| kills | {kills.SMOKE.kills} |" in page(kills, results)
