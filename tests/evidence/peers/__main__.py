"""Runs tests of other projects at brokers, and at the gateway in front of them: `make peers`.

These are Kafka's own tests of KIP-599, of its admin client and of its commands, kafka-python's integration tests, and
franz-go's tests of groups and transactions. The job decides what the gateway asks.
"""

import re
import shutil
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from jobs.installation import jars_folder
from jobs.sandbox.broker import Broker
from quota.errors import MutationQuotaError
from quota.settings import Settings
from quota.wire.schemas import read_release
from tests.evidence.command import Notify, Sections, run
from tests.evidence.gateway.ground import Ground, enforcing, on_ground
from tests.evidence.peers.gateways import Gateways, serving
from tests.evidence.peers.suites import (
    FAILED,
    FRANZ_GO,
    HAVE_PASSED,
    JAVA,
    KAFKA_PYTHON,
    PASSED_LATER,
    Outcome,
    by_test,
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
_METHOD = re.compile(r"(\w+ )?\w+")
"""The module of a test in Python, and its function; without its arguments and the brokers of its run."""
_CLUSTER = re.compile(r"Type=([\w-]+), .*")
"""What Kafka shows of the brokers of a test: their type, and settings that are the same for all."""
_WINDOW_NUM = 10
"""`controller.quota.window.num` of Kafka's test."""
_ADMIN = "kafka.api.PlaintextAdminIntegrationTest"
_DIFFERENCES = "../../explanation/differences-from-kafka.md"
_BY_BROKERS = f"[brokers create a topic by themselves]({_DIFFERENCES})"
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
    ("kafka-python", "test_consumer_integration test_kafka_version_infer"): "it infers the release from the "
    f"versions of Fetch at the gateway's first port, where a broker with node id 0 [stands in]({_DIFFERENCES})",
    **dict.fromkeys([(_ADMIN, test) for test in _CONSUMED], f"{_BY_BROKERS} for a consumer"),
    **dict.fromkeys([(_ADMIN, test) for test in _INTERNAL], f"{_BY_BROKERS} for a Streams group"),
}
"""Why a test that passes at the broker does not at the gateway."""

_PYTHON_SMOKE = "test_create_delete_topics"
_GO_TESTS, _GO_SMOKE = "ETL|Etl|Issue", "TestIssue325"
_JAVA = {suite.name: suite for suite in JAVA}
_IN_PYTHON, _IN_GO = "kafka-python", "franz-go"
SUITES = (*_JAVA, _IN_PYTHON, _IN_GO)
WHOLE = "the suite"
"""The name of a test that stands for a suite that ended with an error."""
_SIDES = ("broker", "gateway")
_BROKER = """\
node.id=0
controller.quorum.voters=0@{host}:{controller_port}
num.partitions=4
auto.create.topics.enable=true
group.min.session.timeout.ms=1000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
"""What kafka-python's tests expect of a broker."""

Outcomes = Mapping[str, Sequence[Iterable[Outcome]]]
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
    if _IN_GO in names and shutil.which("go") is None:
        raise MutationQuotaError(f"the tests of {_IN_GO} need Go")
    java = compiled(where.folder / "java") if _JAVA.keys() & names else []
    jars = jars_folder(OTHER_JARS) if OTHER_JARS else where.jars

    def outcomes(name: str, side: _Side) -> Iterator[Outcome]:
        if suite := _JAVA.get(name):
            return in_java(java, suite.selected(smoke=options.smoke), side.folder, side.opener)
        if name == _IN_PYTHON:
            return in_python(side.folder, side.servers, read_release(jars), _PYTHON_SMOKE if options.smoke else "")
        return in_go(side.folder, side.servers, _GO_SMOKE if options.smoke else _GO_TESTS)

    played: dict[str, dict[str, list[Outcome]]] = {name: {side: [] for side in _SIDES} for name in names}

    def play(turn: Sequence[str], side: _Side) -> None:
        for name in turn:
            try:
                for outcome in outcomes(name, side):
                    played[name][side.name].append(outcome)
                    notify(f"{side.name}: {outcome.outcome}: {name} {outcome.test} {outcome.detail}")
            except Exception as error:  # noqa: BLE001 the other suites go on
                played[name][side.name].append(Outcome(WHOLE, FAILED, str(error)))
                notify(f"{side.name}: {name}: {error}")

    with ExitStack() as stack:
        stack.enter_context(enforcing(settings))
        folders = [where.folder / f"at-{side}" for side in _SIDES]
        direct, target = (
            stack.enter_context(Broker(folder / "broker", jars, extra_properties=_BROKER, java_options=["-Xmx1g"]))
            for folder in folders
        )
        given = f"kafka.target_servers={target.address}"
        gateway = stack.enter_context(where.gateway(settings, "gateway", given))
        opener = stack.enter_context(serving(Gateways(settings, where.folder)))
        wait_for_a_decision(settings)
        at_broker = _Side("broker", folders[0], direct.address)
        at_gateway = _Side("gateway", folders[1], gateway.address, opener)
        turns = [[name for name in names if name in _JAVA], *([name] for name in names if name not in _JAVA)]
        with ThreadPoolExecutor(len(_SIDES)) as pool:
            for turn, side in product(turns, (at_gateway, at_broker)):  # the slower side first
                pool.submit(play, turn, side)
    versions = {"kafka": kafka_version(), "kafka_python": KAFKA_PYTHON, "franz_go": FRANZ_GO}
    versions["broker"] = read_release(jars)
    by_suite = {name: [of_sides[side] for side in _SIDES] for name, of_sides in played.items()}
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "versions": versions, **results(by_suite)}


def peers_settings(settings: Settings) -> Settings:
    """Return the settings of a deployment with the window of Kafka's test."""
    return with_sections(settings, quota={"window_num": _WINDOW_NUM})


def wait_for_a_decision(settings: Settings) -> None:
    """Wait until the job has decided a request: the first decision takes longer than a client waits."""
    produce(settings, settings.topics.requests, request_json(1))
    until(lambda: decisions_of(settings), _SECONDS)


def results(played: Outcomes) -> dict[str, Any]:
    """Return the outcomes at brokers and at the gateway, those of tests that do not pass at both, and what is wrong."""
    suites = []
    for suite, of_sides in played.items():
        at_broker, at_gateway = map(by_test, of_sides)
        names = sorted(at_broker.keys() | at_gateway.keys())
        rows = [_row(name, at_broker.get(name), at_gateway.get(name)) for name in names]
        suites.append({"suite": suite, **_counts(rows), "outcomes": rows})
    return _verdict(suites)


def merged(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return results with the suites of a later run in place of those of an earlier one."""
    suites = {suite["suite"]: suite for of_run in (earlier, later) for suite in of_run["suites"]}
    return {**later, **_verdict([*suites.values()])}


def _verdict(suites: Sequence[dict[str, Any]]) -> dict[str, Any]:
    exceptions, wrong = [], [f"{suite['suite']}: no test was run" for suite in suites if not suite["outcomes"]]
    rows = [row for suite in suites for row in suite["outcomes"]]
    names = [suite["suite"] for suite in suites for _ in suite["outcomes"]]
    for suite, row in zip(names, rows, strict=True):
        reason = REASONS.get((suite, _METHOD.match(row["test"])[0]), "")
        if not HAVE_PASSED.issuperset(row[side] for side in _SIDES):
            exceptions.append({"suite": suite, **row, "reason": reason})
        is_worse = row["broker"] in HAVE_PASSED and row["gateway"] not in HAVE_PASSED
        if row["test"] == WHOLE or (is_worse and not reason):
            wrong.append(f"{suite} {row['test']}: {row['gateway']}: {row['detail']}")
    repeated = sum(PASSED_LATER in row.values() for row in rows)
    return {**_counts(rows), "repeated": repeated, "suites": suites, "exceptions": exceptions, "wrong": wrong}


def _counts(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    passed = {f"pass_at_{side}": sum(row[side] in HAVE_PASSED for row in rows) for side in _SIDES}
    return {"tests": len(rows), **passed}


def _row(test: str, broker: Outcome | None, gateway: Outcome | None) -> dict[str, Any]:
    words = (outcome.outcome if outcome else "not run" for outcome in (broker, gateway))
    details = (outcome.detail for outcome in (gateway, broker) if outcome)
    named = {"test": _CLUSTER.sub(r"\1", test)}
    return {**named, **dict(zip(_SIDES, words, strict=True)), "detail": next(filter(None, details), "")}


if __name__ == "__main__":
    run("peers", on_ground(_play), PAGE, Sections(SUITES, merged))
