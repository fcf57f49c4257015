"""Runs tests of other projects at brokers, and at the gateway in front of them: `make peers`.

These are Kafka's own tests of KIP-599, of its admin client and of its commands, kafka-python's integration tests, and
franz-go's tests of groups and transactions. The job decides what the gateway asks.
"""

import re
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jobs.sandbox.broker import HOST
from quota.settings import Settings
from quota.wire.schemas import read_release
from tests.evidence.command import Notify, run
from tests.evidence.gateway.ground import Ground, enforcing, on_ground
from tests.evidence.peers.gateways import Gateways, serving
from tests.evidence.peers.suites import (
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    Outcome,
    compiled,
    in_go,
    in_java,
    in_python,
    kafka_version,
)
from tests.support.broker import OTHER_JARS
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.topics import decisions_of, produce
from tests.support.waiting import until

PAGE = Path(__file__).with_name("page.md.in")
_SECONDS = 120
_METHOD = re.compile(r"\w*")
_CLUSTER = re.compile(r"Type=([\w-]+), .*")
"""What Kafka shows of the brokers of a test: their type, and settings that are the same for all."""
_WINDOW_NUM = 10
"""`controller.quota.window.num` of Kafka's test."""
_ADMIN = "kafka.api.PlaintextAdminIntegrationTest"
_BY_BROKERS = "it has a [topic that a broker creates by itself](../../explanation/differences-from-kafka.md)"
_CONSUMED = ("testConsumeAfterDeleteRecords", "testDeleteRecordsWithException")
_INTERNAL = (
    "testAlterStreamsGroupOffsets",
    "testDeleteStreamsGroupOffsets",
    "testDeleteStreamsGroups",
    "testDescribeStreamsGroups",
    "testDescribeStreamsGroupsNotReady",
    "testListGroups",
    "testListStreamsGroupOffsets",
)
REASONS = {
    ("kafka.server.ControllerMutationQuotaTest", "testQuotaMetric"): "it looks for the metric of the broker's own "
    "quota; the quota at the gateway has [metrics](../../reference/monitoring/metrics.md) of its own",
    **dict.fromkeys([(_ADMIN, test) for test in _CONSUMED], f"{_BY_BROKERS}, because a consumer asks for it"),
    **dict.fromkeys([(_ADMIN, test) for test in _INTERNAL], f"{_BY_BROKERS}, the internal one of a Streams group"),
}
"""Why a test that passes at the broker does not at the gateway."""

_PYTHON_SMOKE = "test_create_delete_topics"
_GO_TESTS, _GO_SMOKE = "ETL|Etl|Issue", "TestIssue325"
_JAVA = {suite.name: suite for suite in JAVA}
_IN_PYTHON, _IN_GO = "kafka-python", "franz-go"
SUITES = (*_JAVA, _IN_PYTHON, _IN_GO)

Outcomes = Mapping[str, Sequence[Sequence[Outcome]]]
"""The outcomes of the tests of each suite, at brokers and at the gateway."""


@dataclass(frozen=True, slots=True)
class _Side:
    """What the tests of a side connect to, and their folder."""

    name: str
    folder: Path
    servers: str
    """A running cluster, for the tests that start none."""
    opener: int | None = None
    """The port of the program that opens gateways in front of the clusters of tests; None at brokers."""


def _play(where: Ground, options: Namespace, notify: Notify) -> dict[str, Any]:
    settings = peers_settings(where.deployment("peers"))
    names = options.only or SUITES
    java = compiled(where.folder / "java") if _JAVA.keys() & names else []

    def outcomes(name: str, side: _Side) -> list[Outcome]:
        side.folder.mkdir(exist_ok=True)
        if suite := _JAVA.get(name):
            selected = [suite.smoke if options.smoke else suite.runs]
            return in_java(java, selected, side.folder, side.opener, lambda line: notify(f"{side.name}: {line}"))
        notify(f"{side.name}: {name}")
        if name == _IN_PYTHON:
            release = read_release(Path(OTHER_JARS or where.jars))
            return in_python(side.folder, side.servers, release, _PYTHON_SMOKE if options.smoke else "")
        return in_go(side.folder, side.servers, _GO_SMOKE if options.smoke else _GO_TESTS)

    with (
        enforcing(settings),
        where.gateway(settings, "gateway", f"kafka.target_servers={HOST}:{where.port}") as gateway,
        serving(Gateways(settings, where.folder)) as opener,
        ThreadPoolExecutor(2) as pool,
    ):
        wait_for_a_decision(settings)
        direct = _Side("broker", where.folder / "at-broker", f"{HOST}:{where.port}")
        through = _Side("gateway", where.folder / "at-gateway", gateway.address, opener)
        played = {}
        for name in names:
            at_sides = pool.map if name in _JAVA else map  # Kafka's tests start their own brokers, the others share one
            played[name] = tuple(at_sides(partial(outcomes, name), (direct, through)))
        versions = {"kafka": kafka_version(), "kafka_python": KAFKA_PYTHON, "franz_go": FRANZ_GO}
        return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "versions": versions, **results(played)}


def peers_settings(settings: Settings) -> Settings:
    """Return the settings of a deployment with the window of Kafka's test."""
    return with_sections(settings, quota={"window_num": _WINDOW_NUM})


def wait_for_a_decision(settings: Settings) -> None:
    """Wait until the job has decided a request: the first decision takes longer than a client waits."""
    produce(settings, settings.topics.requests, request_json(1))
    until(lambda: decisions_of(settings), _SECONDS)


def results(played: Outcomes) -> dict[str, Any]:
    """Return the outcomes at brokers and at the gateway side by side, and those that differ without a reason."""
    suites, differences = [], []
    for suite, of_sides in played.items():
        at_broker, at_gateway = ({outcome.test: outcome for outcome in of_side} for of_side in of_sides)
        names = sorted(at_broker.keys() | at_gateway.keys())
        rows = [_row(name, at_broker.get(name), at_gateway.get(name)) for name in names]
        differences += [
            {"suite": suite, **row, "reason": _reason(suite, row["test"])}
            for row in rows
            if row["broker"] != row["gateway"]
        ]
        suites.append({"suite": suite, **_counts(rows), "outcomes": rows})
    return {
        **_counts([row for suite in suites for row in suite["outcomes"]]),
        "suites": suites,
        "differences": differences,
        "wrong": [
            f"{row['suite']} {row['test']}: {row['gateway']}: {row['detail']}"
            for row in differences
            if row["broker"] == "passed" and not row["reason"]
        ],
    }


def _counts(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    sides = ("broker", "gateway")
    return {"tests": len(rows), **{f"pass_at_{side}": sum(row[side] == "passed" for row in rows) for side in sides}}


def _row(test: str, broker: Outcome | None, gateway: Outcome | None) -> dict[str, Any]:
    return {
        "test": _CLUSTER.sub(r"\1", test),
        "broker": broker.outcome if broker else "not run",
        "gateway": gateway.outcome if gateway else "not run",
        "detail": gateway.detail if gateway else "",
    }


def _reason(suite: str, test: str) -> str:
    return REASONS.get((suite, _METHOD.match(test)[0]), "")


if __name__ == "__main__":
    run("peers", on_ground(_play), PAGE, sections=SUITES)
