"""The dashboard's queries and the alerts, evaluated by Prometheus itself over what a job serves."""

import subprocess
import time

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry, start_http_server

from jobs.metrics.families import (
    METRICS,
    applier_families,
    decision_families,
    family,
    gateway_families,
    observer_families,
    push_families,
    query_families,
    upkeep_family,
)
from jobs.metrics.query_progress import QueryProgress, QueryView
from jobs.metrics.stats import FollowStats, PushStats
from jobs.metrics.totals import DecisionTotals
from jobs.sandbox.broker import free_port
from quota.gateway.stats import GatewayStats
from quota.kafka.applier.stats import ApplierStats
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Repeat
from quota.records.quota import Window
from quota.records.record import Source
from tests.support.checkout import CHECKOUT
from tests.support.factories import decided
from tests.support.monitoring import DASHBOARD, PANELS, RULES, RULES_FILE
from tests.support.waiting import until


class Job:
    """A collector of all that jobs serve; with each scrape there is a little more."""

    def __init__(self):
        self._account = DecisionTotals(Window(), 2)
        self._tally = ApplierStats()
        self._gateway = GatewayStats()
        self._observed = FollowStats()
        self._scrapes = 0

    def collect(self):
        self._scrapes += 1
        self._add_decisions()
        progress = QueryProgress(self._scrapes, time.time(), {"addBatch": 0.2, "triggerExecution": 0.3}, {}, 3, 4096)
        view = QueryView(time.time(), 10.0, progress, {("requests", 0): self._scrapes})
        yield from decision_families(self._account, round(time.time() * 1000), 2)
        yield from query_families({"enforce": view, "audit": view})
        yield from applier_families(self._tally)
        yield from gateway_families(self._gateway, self._scrapes)
        yield from observer_families(self._observed)
        yield from push_families(PushStats(differing={"changed": 1}, compared_at=time.time()))
        yield upkeep_family({"decisions": self._scrapes})
        yield family("mutation_quota_quota_records_total", self._scrapes)
        yield family("mutation_quota_metrics_failures_total", self._scrapes)

    def _add_decisions(self):
        now = round(time.time() * 1000)
        decisions = [decided(60), decided(2, 1, state=-5.0)]
        decisions += [msgspec.structs.replace(decided(3), user_tag=f"u{number}") for number in range(3)]
        decisions.append(msgspec.structs.replace(decided(4), repeats=Repeat("t-0-0", 1)))
        for each in decisions:
            self._account.record(msgspec.structs.replace(each, timestamp=now), now + 300)
        self._account.record(DeadLetter(error="e", value="{", timestamp=now, source=Source("t", 0, 0)), now)
        self._tally.topics, self._tally.found_done, self._tally.failed = [self._scrapes] * 3
        self._tally.reopened = self._scrapes
        self._gateway.closed["malformed"] = self._gateway.mutations["create_topics", "strict", "admitted"] = (
            self._scrapes
        )
        self._gateway.add_decision(0.3)
        self._observed.requests = self._observed.mutations = self._observed.refused_topics = self._scrapes
        self._observed.assumed_topics = self._observed.invalid_lines = self._scrapes


@pytest.fixture(scope="module")
def running(prometheus):
    """Prometheus after it has scraped the job for two seconds."""
    registry, port = CollectorRegistry(), free_port()
    registry.register(Job())
    server, thread = start_http_server(port, "127.0.0.1", registry)
    try:
        with prometheus(port, RULES_FILE) as found:
            scraped = "min(count_over_time(mutation_quota_decisions_total[1m]))"
            until(lambda: any(int(each["value"][1]) >= 10 for each in found.query("query", query=scraped)["result"]))
            yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def as_grafana_asks(query):
    """Return a query with all variables chosen, and an interval of some scrapes."""
    for name, value in {"$__rate_interval": "1s", "$job": ".*", "$user": ".*"}.items():
        query = query.replace(name, value)
    return query


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_shows_something_and_names_it(running, panel):
    for target in panel["targets"]:
        found = running.query("query", query=as_grafana_asks(target["expr"]))["result"]
        assert found, target["expr"]
        assert any(each["value"][1] != "NaN" for each in found), target["expr"]


def test_choices_of_the_dashboard_exist(running):
    for choice in DASHBOARD["templating"]["list"]:
        if choice["type"] == "query":
            metric_name, label = choice["query"]["query"].removeprefix("label_values(").rstrip(")").split(", ")
            values = running.query(f"label/{label}/values", **{"match[]": metric_name})
            assert values, choice["name"]


def test_each_alert_is_evaluated(running):
    def evaluated():
        rules = [rule for group in running.query("rules")["groups"] for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else None

    rules = until(evaluated)
    assert [rule["name"] for rule in rules] == [rule["alert"] for rule in RULES]
    assert [rule.get("lastError") for rule in rules if rule["health"] != "ok"] == []


def test_every_metric_is_served_under_its_name(running):
    names = set(running.query("label/__name__/values"))
    expected = {f"{each.name}_count" if each.kind == "histogram" else each.name for each in METRICS}
    assert expected <= names


def test_promtool_accepts_the_rules(programs):
    done = subprocess.run(
        [programs["promtool"], "check", "rules", str(RULES_FILE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def fired(programs, tmp_path):
    """Return the alerts of a name that fire after ten minutes, of series with four values a minute.

    Prometheus' own engine evaluates them.
    """

    def _fired(alert, series, expected):
        case = {
            "rule_files": [str(RULES_FILE)],
            "tests": [
                {
                    "interval": "15s",
                    "input_series": [{"series": name, "values": values} for name, values in series.items()],
                    "alert_rule_test": [
                        {
                            "eval_time": "10m",
                            "alertname": alert,
                            "exp_alerts": [
                                {"exp_labels": labels, "exp_annotations": {"summary": summary}}
                                for labels, summary in expected
                            ],
                        }
                    ],
                }
            ],
        }
        (tmp_path / "case.yaml").write_text(yaml.safe_dump(case))
        command = [programs["promtool"], "test", "rules", str(tmp_path / "case.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return _fired


WITH_WORK, IDLE = [("lag_records", 7)], [("lag_records", 0), ("batch_under_way", 0)]


@pytest.mark.parametrize(
    ("series", "fires"), [(WITH_WORK, True), (IDLE, False), ([("batch_under_way", 1)], True), ([], False)]
)
def test_a_stalled_query_with_waiting_records_is_reported_also_in_its_first_batch(fired, series, fires):
    """There is no lag yet, since it is unknown where the query began to read."""
    shown = [("last_batch_timestamp_seconds", 0), *series]
    expected_alert = (
        {"query": "enforce", "severity": "critical"},
        "enforce has not finished a batch for five minutes, although there are records to process.",
    )
    fired(
        "MutationQuotaNoProgress",
        {f'mutation_quota_query_{name}{{query="enforce"}}': f"{value}x60" for name, value in shown},
        [expected_alert] if fires else [],
    )


STARTED = "mutation_quota_query_start_timestamp_seconds"


@pytest.mark.parametrize(("values", "fires"), [("7x8 stale", True), ("7x60", False), ("7x8 stale _x4 9x60", False)])
def test_a_job_that_disappears_is_reported(fired, values, fires):
    expected_alert = (
        {"query": "audit", "severity": "warning"},
        "audit ran within the last day, and no longer reports metrics.",
    )
    fired("MutationQuotaGone", {f'{STARTED}{{query="audit"}}': values}, [expected_alert] if fires else [])


@pytest.mark.parametrize(("values", "fires"), [("7x8 stale", True), ("7x60", False)])
def test_the_loss_of_all_gateways_is_reported_and_of_one_is_not(fired, values, fires):
    """It has a separate alert: clients do not reach the cluster."""
    gateways = {f'{STARTED}{{query="gateway",instance="{each}"}}': values for each in ("a", "b")}
    expected_alert = ({"severity": "critical"}, "No gateway reports metrics; clients cannot reach the cluster.")
    fired("MutationQuotaGatewayGone", gateways, [expected_alert] if fires else [])
    fired("MutationQuotaGatewayGone", {**gateways, f'{STARTED}{{query="gateway",instance="c"}}': "7x60"}, [])
    fired("MutationQuotaGone", gateways, [])


@pytest.mark.parametrize(("starts", "fires"), [(4, False), (5, True)])
def test_several_gateways_are_not_restarts_and_a_restarting_one_is_reported(fired, starts, fires):
    """Six of them, of which one begins again in its place."""
    series = {f'{STARTED}{{query="gateway",instance="{each}"}}': "7x60" for each in range(5)}
    series[f'{STARTED}{{query="gateway",instance="5"}}'] = " ".join(f"{each}x2" for each in range(starts))
    expected_alert = ({"query": "gateway", "severity": "critical"}, "gateway started 5 times within half an hour.")
    fired("MutationQuotaRestarts", series, [expected_alert] if fires else [])


@pytest.mark.parametrize(("values", "fires"), [("0x60", False), ("0x30 1x30", True), ("1x60", False)])
def test_a_mutation_without_a_decision_in_time_is_reported_for_ten_minutes(fired, values, fires):
    expected_alert = ({"severity": "warning"}, "1 requests of the last ten minutes had no decision in time.")
    series = {"mutation_quota_gateway_undecided_requests_total": values}
    fired("MutationQuotaGatewayUndecided", series, [expected_alert] if fires else [])


@pytest.mark.parametrize(("values", "fires"), [("0x60", False), ("0x30 3x30", True)])
def test_an_address_that_bypasses_the_gateway_is_reported(fired, values, fires):
    summary = (
        "Brokers advertise addresses that bypass the gateway. "
        "The gateway removes them, and clients cannot reach these brokers."
    )
    expected_alert = ({"severity": "critical"}, summary)
    series = {"mutation_quota_gateway_foreign_addresses_total": values}
    fired("MutationQuotaGatewayBypassed", series, [expected_alert] if fires else [])


@pytest.mark.parametrize(
    ("values", "fires"), [("1000000x60", False), ("134217728x60", True), ("0x20 134217728x40", False)]
)
def test_an_observer_that_falls_behind_its_logs_is_reported(fired, values, fires):
    expected_alert = ({"severity": "warning"}, "128MiB of the request logs have not been read yet.")
    fired(
        "MutationQuotaObserverBehind",
        {"mutation_quota_observed_behind_bytes": values},
        [expected_alert] if fires else [],
    )


@pytest.mark.parametrize(("values", "fires"), [("0x60", False), ("7x60", False), ("0x30 3x30", True)])
def test_unreadable_lines_are_reported(fired, values, fires):
    expected_alert = ({"severity": "warning"}, "3 lines of the request logs of the last ten minutes cannot be parsed.")
    fired(
        "MutationQuotaObserverInvalidLines",
        {"mutation_quota_observed_invalid_lines_total": values},
        [expected_alert] if fires else [],
    )


@pytest.mark.parametrize(("values", "fires"), [("0x60", False), ("0x10 2x50", True), ("0x30 2x5 0x30", False)])
def test_lasting_drift_of_a_clusters_quotas_is_reported(fired, values, fires):
    """All kinds count together; drift that is repaired within minutes is not reported."""
    series = {f'mutation_quota_push_differing_quotas{{difference="{each}"}}': values for each in ("changed", "missing")}
    expected_alert = ({"severity": "warning"}, "4 quotas of the cluster differ from the quota log.")
    fired("MutationQuotaDrift", series, [expected_alert] if fires else [])


@pytest.mark.parametrize(("last", "fires"), [(290, True), (310, False)])
def test_a_cluster_that_was_not_compared_for_five_minutes_is_reported(fired, last, fires):
    """The alert uses the time of the last comparison, as of ten minutes after the epoch."""
    expected_alert = (
        {"severity": "warning"},
        "The quotas of the cluster were not compared with the quota log for 5m 10s.",
    )
    fired(
        "MutationQuotaNotCompared",
        {"mutation_quota_push_last_comparison_timestamp_seconds": f"{last}x60"},
        [expected_alert] if fires else [],
    )


@pytest.mark.parametrize(
    ("values", "fires"),
    [("0x60", False), ("0x30 2x30", False), ("0x10 1x10 2x10 3x30", True), ("0x10 2x10 4x30", True)],
)
def test_upkeep_that_fails_again_and_again_is_reported_and_a_single_time_is_not(fired, values, fires):
    """Each time its two parts may fail. The hours between two attempts are minutes here."""
    expected = (
        {"table": "decisions", "severity": "warning"},
        "The upkeep of the table decisions fails again and again.",
    )
    fired(
        "MutationQuotaUpkeepFails",
        {'mutation_quota_upkeep_failures_total{table="decisions"}': values},
        [expected] if fires else [],
    )


@pytest.mark.parametrize("starts", [1, 4, 5])
@pytest.mark.parametrize("pods", [True, False])
def test_a_job_that_restarts_repeatedly_is_reported(fired, starts, pods):
    """Each start may be in a new pod, and so have a separate series."""
    if pods:
        series = {
            f'{STARTED}{{query="enforce",instance="pod-{each}"}}': f"_x{4 * each} {each}x2 stale"
            for each in range(1, starts + 1)
        }
    else:
        series = {f'{STARTED}{{query="enforce"}}': " ".join(f"{each}x2 stale" for each in range(1, starts + 1))}
    expected_alert = ({"query": "enforce", "severity": "critical"}, "enforce started 5 times within half an hour.")
    fired("MutationQuotaRestarts", series, [expected_alert] if starts > 4 else [])


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
