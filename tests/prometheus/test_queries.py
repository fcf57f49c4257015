"""The dashboard's queries and the alerts, evaluated by Prometheus itself over what a job serves."""

import re
import subprocess
import time
from functools import partial

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from jobs.metrics.batches import FinishedBatch, QueryView
from jobs.metrics.families import (
    applier_families,
    decision_families,
    family,
    gateway_families,
    query_families,
)
from jobs.metrics.totals import DecisionTotals
from jobs.observe.following import FollowStats, observer_families
from jobs.sandbox.broker import free_port
from jobs.services.push import PushStats, push_families
from quota.gateway.stats import GatewayStats
from quota.kafka.applier import ApplierStats
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Repeat
from quota.records.quota_log import Window
from quota.records.reason import Reason
from quota.records.record import Source
from quota.records.request import Operation
from tests.support.checkout import CHECKOUT
from tests.support.factories import decided
from tests.support.monitoring import DASHBOARD, PANELS, RULES, RULES_FILE
from tests.support.waiting import until


class Job:
    """A collector of all that jobs serve; with each scrape there is a little more."""

    def __init__(self):
        self._account = DecisionTotals(Window(), 2)
        self._tally = ApplierStats()
        self._gateway = GatewayStats(certificate_ends_at=4e9, broker_failures={19_092: ""})
        self._observed = FollowStats()
        self._scrapes = 0

    def collect(self):
        self._scrapes += 1
        self._add_decisions()
        progress = FinishedBatch(self._scrapes, time.time(), {"addBatch": 0.2, "triggerExecution": 0.3}, {}, 3, 4096)
        view = QueryView(time.time(), 10.0, progress, {("requests", 0): self._scrapes})
        yield from decision_families(self._account, round(time.time() * 1000), 2)
        yield from query_families({"enforce": view, "audit": view})
        yield from applier_families(self._tally)
        yield from gateway_families(self._gateway, self._scrapes)
        yield from observer_families(self._observed)
        yield from push_families(PushStats(differing={"changed": 1}, compared_at=time.time()))
        yield family("mutation_quota_upkeep_failures_total", {"decisions": self._scrapes})
        yield family("mutation_quota_quota_records_total", self._scrapes)
        yield family("mutation_quota_callback_metadata_timestamp_seconds", time.time())
        yield family("mutation_quota_skipped_records_total", {"decisions": self._scrapes})
        yield family("mutation_quota_metrics_failures_total", self._scrapes)

    def _add_decisions(self):
        now = round(time.time() * 1000)
        decisions = [decided(60), decided(2, 1, state=-5.0)]
        decisions += [msgspec.structs.replace(decided(3), user_tag=f"u{number}") for number in range(3)]
        decisions.append(msgspec.structs.replace(decided(4), repeats=Repeat("t-0-0", 1)))
        for decision in decisions:
            self._account.record(msgspec.structs.replace(decision, timestamp=now), now + 300)
        self._account.record(DeadLetter(error="e", value="{", timestamp=now, source=Source("t", 0, 0)), now)
        self._tally.topics, self._tally.found_done, self._tally.failed = [self._scrapes] * 3
        self._gateway.closed["malformed"] = self._scrapes
        self._gateway.mutations["create_topics", "strict", "admitted", ""] = self._scrapes
        self._gateway.add_unrecorded("alice", {Reason.NO_TIME: 1})
        self._gateway.add_decision(0.3)
        observed = self._observed.counts
        for counted in (observed.requests, observed.mutations, observed.assumed_topics):
            counted[Operation.CREATE_TOPICS] = self._scrapes
        observed.rejected_topics = self._scrapes
        self._observed.invalid_lines = self._observed.invalid_bytes = self._scrapes


@pytest.fixture(scope="module")
def running(prometheus):
    """Prometheus after it has scraped the job for two seconds."""
    registry, port = CollectorRegistry(), free_port()
    registry.register(Job())
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        with prometheus(port, RULES_FILE) as live:
            scraped = "min(count_over_time(mutation_quota_decisions_total[1m]))"
            until(lambda: any(int(series["value"][1]) >= 10 for series in live.query("query", query=scraped)["result"]))
            yield live
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def as_grafana_asks(query):
    """Return a query with all variables chosen, and an interval of some scrapes."""
    for name, value in {"$__rate_interval": "1s", "$job": ".*", "${user:regex}": ".*"}.items():
        query = query.replace(name, value)
    return query


def legend(target, labels):
    """Return what Grafana calls a series with these labels."""
    return re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), target["legendFormat"]).strip()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_shows_something_and_names_it(running, panel):
    """Each series of a panel has a name of its own, made of its labels; a single one needs none."""

    def names(target):
        result = running.query("query", query=as_grafana_asks(target["expr"]))["result"]
        return [legend(target, series["metric"]) for series in result if series["value"][1] != "NaN"]

    # a busy machine misses scrapes
    named = [name for target in panel["targets"] for name in until(partial(names, target), 10)]
    assert len(set(named)) == len(named)
    assert "" not in named or len(named) == 1


def test_choices_of_the_dashboard_exist(running):
    values = {}
    for choice in DASHBOARD["templating"]["list"]:
        if choice["type"] == "query":
            metric_name, label = choice["query"]["query"].removeprefix("label_values(").rstrip(")").split(", ")
            values[choice["name"]] = running.query(f"label/{label}/values", **{"match[]": metric_name})
    assert values["job"] == ["mutation-quota"]
    assert "u0" in values["user"]


def test_each_alert_is_evaluated(running):
    def evaluated():
        rules = [rule for group in running.query("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = until(evaluated)
    assert [rule["name"] for rule in rules] == [rule["alert"] for rule in RULES]
    assert [rule.get("lastError") for rule in rules if rule["health"] != "ok"] == []


STARTED = "mutation_quota_query_start_timestamp_seconds"
GATEWAYS = [f'{STARTED}{{query="gateway",instance="{number}"}}' for number in range(6)]
QUERY = "mutation_quota_query"

FIRED = {
    "Down": (
        {"query": "enforce", "severity": "critical"},
        "No enforce job reports metrics; requests wait for their decisions.",
    ),
    "RejectedShare": (
        {"severity": "warning"},
        "50% of the requested topics are rejected, because quotas are exhausted.",
    ),
    "NoProgress": (
        {"query": "enforce", "severity": "critical"},
        "enforce has not finished a batch for five minutes, although there are records to process.",
    ),
    "Gone": (
        {"query": "audit", "severity": "warning"},
        "audit ran within the last day, and no longer reports metrics.",
    ),
    "GatewayGone": ({"severity": "critical"}, "No gateway reports metrics; clients cannot reach the cluster."),
    "Restarts": ({"query": "enforce", "severity": "critical"}, "enforce started 5 times within half an hour."),
    "Restarts of gateways": (
        {"query": "gateway", "severity": "critical"},
        "gateway started 5 times within half an hour.",
    ),
    "GatewayUndecided": (
        {"reason": "NO_DECISION", "severity": "warning"},
        "1 topics of the last ten minutes had no decision in time (NO_DECISION).",
    ),
    "GatewayUncharged": (
        {"user": "alice", "severity": "warning"},
        "716 mutations of alice proceeded without a decision in the last ten minutes, and are never charged.",
    ),
    "GatewayBypassed": (
        {"severity": "critical"},
        (
            "Brokers advertise addresses that bypass the gateway. "
            "The gateway removes them, and clients cannot reach these brokers."
        ),
    ),
    "ObserverBehind": ({"severity": "warning"}, "128MiB of the request logs have not been read yet."),
    "ObserverInvalidLines": (
        {"severity": "warning"},
        "3 lines of the request logs of the last ten minutes cannot be parsed.",
    ),
    "Drift": ({"severity": "warning"}, "4 quotas of the cluster differ from the quota log."),
    "RepairedAgain": (
        {"severity": "warning"},
        "Quotas of the cluster were changed by another program, and repaired, 3 times in half an hour.",
    ),
    "GatewayCertificateEnds": (
        {"severity": "warning"},
        "A gateway's certificate is valid for less than a week. Replace its files; the gateway reads them again.",
    ),
    "MetadataOld": ({"severity": "warning"}, "The callback has the cluster's metadata of 2d 0h 1m 0s ago."),
    "UpkeepFails": (
        {"table": "decisions", "severity": "warning"},
        "The upkeep of the table decisions fails again and again.",
    ),
    "StandbyMissing": (
        {"severity": "warning"},
        "An enforce stood by within the last day, and none is ready to take over now.",
    ),
}
"""The labels and the summary of each alert in the cases below."""


def stalled(**values):
    """Return the series of a query whose last batch was ten minutes ago."""
    return {f'{QUERY}_{name}{{query="enforce"}}': f"{value}x60" for name, value in {LAST: 0, **values}.items()}


def drift(values):
    return {f'mutation_quota_push_differing_quotas{{difference="{kind}"}}': values for kind in ("changed", "missing")}


def pods(starts):
    """Return the series of a query that starts so many times, each time in a new pod."""
    pods = {number: f'{STARTED}{{query="enforce",instance="pod-{number}"}}' for number in range(1, starts + 1)}
    return {series: f"_x{4 * number} {number}x2 stale" for number, series in pods.items()}


LAST = "last_batch_timestamp_seconds"
UNDECIDED = 'mutation_quota_gateway_topics_total{reason="NO_DECISION"}'
STANDBY = "mutation_quota_standby_start_timestamp_seconds"
UNCHARGED = "mutation_quota_gateway_uncharged_mutations_total"
_EVALUATED = {"GatewayBypassed": "25m", "RejectedShare": "22m"}
"""When an alert is evaluated, if not after ten minutes."""
FOREIGN = "mutation_quota_gateway_foreign_addresses_total"
BEHIND, INVALID = "mutation_quota_observed_behind_bytes", "mutation_quota_observed_invalid_lines_total"
ENDS = "mutation_quota_gateway_certificate_end_timestamp_seconds"
REPAIRED = "mutation_quota_push_repaired_total"
METADATA = "mutation_quota_callback_metadata_timestamp_seconds"
UPKEEP = 'mutation_quota_upkeep_failures_total{table="decisions"}'
ENFORCE = f'{QUERY}_{LAST}{{query="enforce"}}'
TOPICS = 'mutation_quota_topics_total{reason="%s"}'


@pytest.fixture
def check_alert(programs, tmp_path):
    """Return a function that checks that an alert fires for these labels, which it has besides its own."""

    def check(alert, series, fired):
        name = f"MutationQuota{alert.partition(' ')[0]}"
        labels, summary = FIRED[alert]
        expected = [{"exp_labels": labels | others, "exp_annotations": {"summary": summary}} for others in fired]
        case = {
            "interval": "15s",
            "input_series": [{"series": selector, "values": values} for selector, values in series.items()],
            "alert_rule_test": [{"eval_time": _EVALUATED.get(alert, "10m"), "alertname": name, "exp_alerts": expected}],
        }
        (tmp_path / "case.yaml").write_text(yaml.safe_dump({"rule_files": [str(RULES_FILE)], "tests": [case]}))
        command = [programs["promtool"], "test", "rules", str(tmp_path / "case.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return check


@pytest.mark.parametrize(
    ("alert", "series", "fires"),
    [
        # a query with records to read; in its first batch there is no lag, since it is unknown where it began to read
        ("NoProgress", stalled(lag_records=7), True),
        ("NoProgress", stalled(lag_records=0, batch_under_way=0), False),
        ("NoProgress", stalled(batch_under_way=1), True),
        ("NoProgress", stalled(), False),
        ("Down", {}, True),
        ("Down", {ENFORCE: "7x8 stale"}, True),
        ("Down", {ENFORCE: "7x60"}, False),
        ("Down", {ENFORCE: "7x8 stale", f'{QUERY}_{LAST}{{query="enforce",instance="b",pod="b"}}': "_x12 7x60"}, False),
        # a deployment that never had a standby; and one whose standby took over, and has another one four minutes later
        ("StandbyMissing", {ENFORCE: "7x60"}, False),
        ("StandbyMissing", {STANDBY: "7x60"}, False),
        ("StandbyMissing", {STANDBY: "7x8 stale"}, True),
        ("StandbyMissing", {STANDBY: "7x8 stale", f'{STANDBY}{{pod="b"}}': "_x24 7x60"}, False),
        ("Gone", {f'{STARTED}{{query="audit"}}': "7x8 stale"}, True),
        ("Gone", {f'{STARTED}{{query="audit"}}': "7x60"}, False),
        ("Gone", {f'{STARTED}{{query="audit"}}': "7x8 stale _x4 9x60"}, False),
        # gateways have an alert of their own: the loss of all of them counts, because clients do not reach the cluster
        ("Gone", dict.fromkeys(GATEWAYS[:2], "7x8 stale"), False),
        ("GatewayGone", dict.fromkeys(GATEWAYS[:2], "7x8 stale"), True),
        ("GatewayGone", dict.fromkeys(GATEWAYS[:2], "7x8 stale") | {GATEWAYS[2]: "7x60"}, False),
        # six gateways, of which one begins again in its place
        ("Restarts of gateways", dict.fromkeys(GATEWAYS, "7x60") | {GATEWAYS[5]: "0x2 1x2 2x2 3x2"}, False),
        ("Restarts of gateways", dict.fromkeys(GATEWAYS, "7x60") | {GATEWAYS[5]: "0x2 1x2 2x2 3x2 4x2"}, True),
        # an observer beside each of five brokers
        ("Restarts", {f'{STARTED}{{query="observe",instance="{broker}"}}': "7x60" for broker in range(5)}, False),
        # each start may be in a new pod, and so have a separate series
        ("Restarts", {f'{STARTED}{{query="enforce"}}': "1x2 stale 2x2 stale 3x2 stale 4x2 stale"}, False),
        ("Restarts", {f'{STARTED}{{query="enforce"}}': "1x2 stale 2x2 stale 3x2 stale 4x2 stale 5x2 stale"}, True),
        ("Restarts", pods(4), False),
        ("Restarts", pods(5), True),
        ("GatewayUndecided", {UNDECIDED: "0x60"}, False),
        ("GatewayUndecided", {UNDECIDED: "0x30 1x30"}, True),
        ("GatewayUndecided", {UNDECIDED.replace("NO_DECISION", "EXHAUSTED"): "0x30 1x30"}, False),
        ("GatewayUncharged", {f'{UNCHARGED}{{user="alice"}}': "0x60"}, False),
        ("GatewayUncharged", {f'{UNCHARGED}{{user="alice"}}': "7x60"}, False),
        ("GatewayUncharged", {f'{UNCHARGED}{{user="alice"}}': "0x30 716x30"}, True),
        ("GatewayUncharged", {f'{UNCHARGED}{{user="alice"}}': "_x30 716x30"}, True),
        ("GatewayBypassed", {FOREIGN: "0x60"}, False),
        # a broker joined; one that stays unknown, and whose address only one client asks for
        ("GatewayBypassed", {FOREIGN: "0x10 3x110"}, False),
        ("GatewayBypassed", {FOREIGN: "0x20 1x20 2x20 3x20 4x20 5x20"}, True),
        # the earliest end of several gateways, as of ten minutes after the epoch: a week has 604,800 s
        ("GatewayCertificateEnds", {f'{ENDS}{{instance="{pod}"}}': f"60540{pod}x60" for pod in range(2)}, False),
        ("GatewayCertificateEnds", {f'{ENDS}{{instance="{pod}"}}': f"60539{pod}x60" for pod in (0, 9)}, True),
        ("ObserverBehind", {BEHIND: "1000000x60"}, False),
        ("ObserverBehind", {BEHIND: "134217728x60"}, True),
        ("ObserverBehind", {BEHIND: "0x20 134217728x40"}, False),
        ("ObserverInvalidLines", {INVALID: "7x60"}, False),
        ("ObserverInvalidLines", {INVALID: "0x30 3x30"}, True),
        # all kinds of drift count together; drift that is repaired within minutes is not reported
        ("Drift", drift("0x10 2x50"), True),
        ("Drift", drift("0x30 2x5 0x30"), False),
        # repairs that are undone again, and a single one of many quotas
        ("RepairedAgain", {REPAIRED: "0x10 1x10 3x10 4x30"}, True),
        ("RepairedAgain", {REPAIRED: "0x10 9x50"}, False),
        # its two parts may fail each time; the hours between two attempts are minutes here
        # published two days and a few seconds before the tenth minute after the epoch
        ("MetadataOld", {METADATA: "-172190x60"}, False),
        ("MetadataOld", {METADATA: "-172260x60"}, True),
        ("UpkeepFails", {UPKEEP: "0x30 2x30"}, False),
        ("UpkeepFails", {UPKEEP: "0x10 1x10 2x10 3x30"}, True),
    ],
)
def test_an_alert_fires_in_time(check_alert, alert, series, fires):
    """The series have four values a minute. Prometheus' own engine evaluates them, most after ten minutes."""
    check_alert(alert, series, [{}] if fires else [])


@pytest.mark.parametrize("label", ["job", "namespace", "cluster"])
@pytest.mark.parametrize(
    ("alert", "failing", "working"),
    [
        ("Down", {ENFORCE: "7x8 stale"}, {ENFORCE: "7x60"}),
        ("Gone", {f'{STARTED}{{query="audit"}}': "7x8 stale"}, {f'{STARTED}{{query="audit"}}': "7x60"}),
        ("GatewayGone", {f'{STARTED}{{query="gateway"}}': "7x8 stale"}, {f'{STARTED}{{query="gateway"}}': "7x60"}),
        (
            "RejectedShare",
            dict.fromkeys((TOPICS % "", TOPICS % "EXHAUSTED"), "0+1x100"),
            {TOPICS % "": "0+9x100", TOPICS % "EXCEEDS_LIMIT": "0+9x100"},
        ),
        ("Restarts", pods(5), pods(3)),
        ("GatewayUncharged", {f'{UNCHARGED}{{user="alice"}}': "0x30 716x30"}, {f'{UNCHARGED}{{user="alice"}}': "0x60"}),
    ],
)
def test_a_deployment_that_fails_is_reported_although_another_one_works(check_alert, alert, failing, working, label):
    """Two deployments of one Prometheus differ by one label, and may have the same instances."""
    series = {
        selector.replace("}", f',{label}="{value}"}}'): values
        for value, own in (("a", failing), ("b", working))
        for selector, values in own.items()
    }
    check_alert(alert, series, [{label: "a"}])


def test_the_opentelemetry_collector_scrapes_as_prometheus_does(programs, tmp_path):
    """Its receiver takes a configuration of Prometheus'; what it hands on is what it has received."""
    collector = yaml.safe_load((CHECKOUT / "conf/otel/collector.yaml").read_text())
    scraping = tmp_path / "prometheus.yml"
    scraping.write_text(yaml.safe_dump(collector["receivers"]["prometheus"]["config"]))
    done = subprocess.run(
        [programs["promtool"], "check", "config", str(scraping)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (pipeline,) = collector["service"]["pipelines"].values()
    assert set(pipeline["receivers"]) == collector["receivers"].keys()
    assert set(pipeline["exporters"]) == collector["exporters"].keys()
