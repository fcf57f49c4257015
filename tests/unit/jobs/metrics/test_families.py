"""The metrics as Prometheus' own parser reads them."""

import msgspec

from jobs.metrics.families import (
    applier_families,
    decision_families,
    gateway_families,
    observer_families,
    push_families,
    query_families,
    upkeep_family,
)
from jobs.metrics.query_progress import QueryProgress, QueryView
from jobs.metrics.stats import FollowStats, PushStats
from jobs.metrics.totals import DecisionTotals
from quota.gateway.stats import GatewayStats
from quota.kafka.applier.stats import ApplierStats
from quota.records.quota import Window
from tests.support.factories import decided
from tests.support.monitoring import METRICS, samples

PROGRESS = QueryProgress(
    batch=6,
    ended_at=100.5,
    phases={"addBatch": 0.25, "triggerExecution": 0.5},
    positions={("requests", 0): 10, ("requests", 1): 20},
    state_rows=3,
    state_bytes=4096,
)


def account(*decisions):
    account = DecisionTotals(Window(), 10)
    for decision in decisions:
        account.record(decision, decision.timestamp + 300)
    return account


def alice(name, *labels):
    return (name, *sorted([("client_id", ""), ("tags", ""), ("user", "alice"), *labels]))


def test_a_tenants_series_bear_kafkas_names_and_numbers():
    """A second after 60 of 55: K is -5 + 5, the rate 60 by ten windows."""
    found = samples(decision_families(account(decided(60), decided(2, 1, state=-5.0)), 1000, 10))
    assert found[alice("kafka_server_controllermutation_rate")] == 6
    assert found[alice("kafka_server_controllermutation_tokens")] == 0
    assert found[alice("kafka_server_controllermutation_throttle_time")] == 1000
    assert found[alice("mutation_quota_tenant_quota")] == 5
    assert found[alice("mutation_quota_tenant_burst")] == 55
    assert found[alice("mutation_quota_tenant_topics_total", ("outcome", "admitted"))] == 1
    assert found[alice("mutation_quota_tenant_topics_total", ("outcome", "refused"))] == 2


def test_sums_include_all_tenants():
    found = samples(decision_families(account(decided(60), decided(2, 1, state=-5.0), decided(7, rate=None)), 1000, 10))
    assert found["mutation_quota_decisions_total", ("outcome", "admitted")] == 2
    assert found["mutation_quota_decisions_total", ("outcome", "partial")] == 0
    assert found["mutation_quota_decisions_total", ("outcome", "rejected")] == 1
    assert found["mutation_quota_topics_total", ("outcome", "refused")] == 2
    assert found["mutation_quota_mutations_total", ("outcome", "admitted")] == 67
    assert found["mutation_quota_mutations_total", ("outcome", "refused")] == 3
    assert found[("mutation_quota_tenants_near_limit",)] == 1
    assert found["mutation_quota_decision_latency_seconds_bucket", ("le", "0.2")] == 0
    assert found["mutation_quota_decision_latency_seconds_bucket", ("le", "0.3")] == 3
    assert found["mutation_quota_decision_latency_seconds_bucket", ("le", "+Inf")] == 3
    assert found[("mutation_quota_decision_latency_seconds_count",)] == 3
    assert round(found[("mutation_quota_decision_latency_seconds_sum",)], 9) == 0.9


def test_only_the_busiest_tenants_have_their_own_series():
    """The number of tenants near their limit includes all of them."""
    users = [msgspec.structs.replace(decided(50 + number), user_tag=f"u{number}") for number in range(5)]
    found = samples(decision_families(account(*users), 0, 2))
    shown = {dict(labels)["user"] for name, *labels in found if name == "kafka_server_controllermutation_rate"}
    assert shown == {"u3", "u4"}
    assert found[("mutation_quota_tenants_hidden",)] == 3
    assert found[("mutation_quota_tenants_near_limit",)] == 5


def test_any_name_can_be_a_label():
    odd = 'a"b\\c\nd\u00e9\U0001f600'
    decision = msgspec.structs.replace(decided(1), user_tag=odd, client_tag="}", more_tags={"team \u00e9": "x=1,y"})
    rates = [labels for name, *labels in samples(decision_families(account(decision), 0, 10)) if name.endswith("_rate")]
    assert rates == [[("client_id", "}"), ("tags", '{"team \u00e9": "x=1,y"}'), ("user", odd)]]


def test_a_query_reports_its_last_batch_and_its_lag():
    ends = {("requests", 0): 15, ("requests", 1): 20}
    found = samples(query_families({"enforce": QueryView(90.0, 2.5, PROGRESS, ends)}))
    query = ("query", "enforce")
    assert found["mutation_quota_query_lag_records", query] == 5
    assert found["mutation_quota_query_batches_total", query] == 7
    assert found["mutation_quota_query_start_timestamp_seconds", query] == 90.0
    assert found["mutation_quota_query_last_batch_timestamp_seconds", query] == 100.5
    assert found["mutation_quota_query_batch_seconds", ("phase", "addBatch"), query] == 0.25
    assert found["mutation_quota_query_batch_seconds", ("phase", "triggerExecution"), query] == 0.5
    assert found["mutation_quota_query_trigger_seconds", query] == 2.5
    assert found["mutation_quota_state_rows", query] == 3
    assert found["mutation_quota_state_bytes", query] == 4096


def test_in_its_first_batch_a_query_reports_its_start_and_no_lag():
    found = samples(query_families({"audit": QueryView(90.0, 10.0, under_way=True)}))
    assert found == {
        ("mutation_quota_query_start_timestamp_seconds", ("query", "audit")): 90.0,
        ("mutation_quota_query_last_batch_timestamp_seconds", ("query", "audit")): 90.0,
        ("mutation_quota_query_batch_under_way", ("query", "audit")): 1.0,
        ("mutation_quota_query_trigger_seconds", ("query", "audit")): 10.0,
    }


def test_every_family_is_one_of_the_registry_with_its_labels_and_kind():
    """The page, the dashboard and the alerts are compared with the registry."""
    families = [
        *decision_families(account(decided(60)), 0, 10),
        *query_families({"enforce": QueryView(90.0, 2.5, PROGRESS, {("requests", 0): 10})}),
        *applier_families(ApplierStats()),
        *observer_families(FollowStats()),
        *gateway_families(GatewayStats(), 0),
        *push_families(PushStats(compared_at=1.0)),
        upkeep_family({"decisions": 0}),
    ]
    known = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    for family in families:
        metric = known[family.name]
        assert family.type == metric.kind
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(metric.labels), sample
    reported_elsewhere = {"mutation_quota_quota_records", "mutation_quota_metrics_failures"}
    assert {family.name for family in families} == known.keys() - reported_elsewhere
