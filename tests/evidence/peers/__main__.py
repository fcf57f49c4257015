"""Runs tests of other projects at brokers, and at the gateway in front of them: `make peers`.

These are Kafka's own tests of KIP-599, of its admin client and of its commands, kafka-python's integration tests, and
franz-go's tests of groups and transactions. The job decides what the gateway asks.
"""

import re
import time
from argparse import Namespace
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
_WINDOW_NUM = 10
"""`controller.quota.window.num` of Kafka's test."""
REASONS = {
    ("kafka.server.ControllerMutationQuotaTest", "testQuotaMetric"): "it looks for the metric of the broker's own "
    "quota; the quota at the gateway has [metrics](../../reference/monitoring/metrics.md) of its own",
}
"""Why a test that passes at the broker does not at the gateway."""

_PYTHON_SMOKE = "test_create_delete_topics"
_GO_TESTS, _GO_SMOKE = "ETL|Etl|Issue", "TestIssue325"
_JAVA = {suite.name: suite for suite in JAVA}
_IN_PYTHON, _IN_GO = "kafka-python", "franz-go"
SUITES = (*_JAVA, _IN_PYTHON, _IN_GO)

Outcomes = dict[str, list[Outcome]]
"""The outcomes of the tests of each suite."""


def _play(where: Ground, options: Namespace, notify: Notify) -> dict[str, Any]:
    settings = peers_settings(where, "peers")
    names = options.only or SUITES
    java = compiled(where.folder / "java") if _JAVA.keys() & names else []
    log = where.folder / "tests.log"

    def outcomes(side: str, name: str, opener: int | None, servers: str) -> list[Outcome]:
        notify(f"{side}: {name}")
        if suite := _JAVA.get(name):
            return in_java(java, [suite.smoke if options.smoke else suite.runs], log, opener, notify)
        if name == _IN_PYTHON:
            release = read_release(Path(OTHER_JARS or where.jars))
            return in_python(where.folder, servers, release, log, _PYTHON_SMOKE if options.smoke else "")
        return in_go(where.folder, servers, log, _GO_SMOKE if options.smoke else _GO_TESTS)

    direct = {name: outcomes("broker", name, None, f"{HOST}:{where.port}") for name in names}
    with (
        enforcing(settings),
        where.gateway(settings, "gateway", f"kafka.target_servers={HOST}:{where.port}") as gateway,
    ):
        wait_for_a_decision(settings)
        with serving(Gateways(settings, where.folder)) as opener:
            through = {name: outcomes("gateway", name, opener, gateway.address) for name in names}
    return _results(direct, through)


def peers_settings(where: Ground, name: str) -> Settings:
    """Return the settings of a deployment with the window of Kafka's test; its topics are made."""
    return with_sections(where.deployment(name), quota={"window_num": _WINDOW_NUM})


def wait_for_a_decision(settings: Settings) -> None:
    """Wait until the job has decided a request: the first decision takes longer than a client waits."""
    produce(settings, settings.topics.requests, request_json(1))
    until(lambda: decisions_of(settings), _SECONDS)


def _results(direct: Outcomes, through: Outcomes) -> dict[str, Any]:
    suites, tests, differences = [], [], []
    for suite, outcomes in direct.items():
        at_broker, at_gateway = (
            {outcome.test: outcome for outcome in of_side} for of_side in (outcomes, through[suite])
        )
        names = sorted(at_broker.keys() | at_gateway.keys())
        rows = [_row(suite, name, at_broker.get(name), at_gateway.get(name)) for name in names]
        tests += rows
        differences += [row for row in rows if row["broker"] != row["gateway"]]
        suites.append(
            {
                "suite": suite,
                "tests": len(rows),
                "pass_at_broker": sum(row["broker"] == "passed" for row in rows),
                "pass_at_gateway": sum(row["gateway"] == "passed" for row in rows),
            }
        )
    unexplained = [row for row in differences if row["broker"] == "passed" and not row["reason"]]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": {"kafka": kafka_version(), "kafka_python": KAFKA_PYTHON, "franz_go": FRANZ_GO},
        "suites": suites,
        "differences": differences,
        "tests": tests,
        "wrong": [f"{row['suite']} {row['test']}: {row['gateway']}: {row['detail']}" for row in unexplained],
    }


def _row(suite: str, test: str, broker: Outcome | None, gateway: Outcome | None) -> dict[str, Any]:
    return {
        "suite": suite,
        "test": test,
        "broker": broker.outcome if broker else "not run",
        "gateway": gateway.outcome if gateway else "not run",
        "reason": REASONS.get((suite, _METHOD.match(test)[0]), ""),
        "detail": gateway.detail if gateway else "",
    }


if __name__ == "__main__":
    run("peers", on_ground(_play), PAGE, sections=SUITES)
