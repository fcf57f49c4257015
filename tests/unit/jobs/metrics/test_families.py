"""The totals of all answers, and the metrics as Prometheus' own parser reads them."""

from collections import Counter
from itertools import permutations

import pytest
from msgspec.structs import replace

from jobs.metrics.batches import FinishedBatch, QueryView
from jobs.metrics.families import (
    METRICS,
    applier_families,
    decision_families,
    family,
    gateway_families,
    query_families,
)
from jobs.metrics.totals import DecisionTotals, Latencies, MutationCounts, TenantMetrics, TenantRegistry
from jobs.observe.following import FollowStats, observer_families
from jobs.services.push import PushStats, push_families
from quota.gateway.operations import MutationResponse
from quota.gateway.stats import GatewayStats
from quota.kafka.applier import ApplierStats
from quota.planning.cluster import differences
from quota.records.dead_letter import DeadLetter
from quota.records.decision import Outcome, Repeat, Shadow
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.records.reason import Reason
from quota.records.record import Source
from quota.wire.headers import RequestHeader
from quota.wire.protocol import ApiKey
from tests.support.factories import decide_all, decided, resolved
from tests.support.monitoring import samples

PROGRESS = FinishedBatch(
    batch=6,
    ended_at=100.5,
    phases={"addBatch": 0.25, "triggerExecution": 0.5},
    positions={("requests", 0): 10, ("requests", 1): 20},
    state_rows=3,
    state_bytes=4096,
)
ENFORCE = ("query", "enforce")


def account(*decisions):
    account = DecisionTotals(Window(), 10)
    for decision in decisions:
        account.record(decision, decision.timestamp + 300)
    return account


def alice(name, *labels):
    return (name, *sorted([("client_id", ""), ("tags", ""), ("user", "alice"), *labels]))


def values(families, name, label):
    """Return the values of a metric by one of its labels."""
    return {dict(labels)[label]: value for (metric, *labels), value in samples(families).items() if metric == name}


@pytest.mark.parametrize("arrival", list(permutations(range(4))))
def test_charges_that_came_late_from_other_partitions_count_at_once(arrival):
    """40 of 500 at ten seconds, then late ones of 7 and 8 from two other partitions, which gain nothing."""
    late = [resolved(partitions, at=5000 - number, partition=number) for number, partitions in ((1, 7), (2, 8))]
    _, decisions = decide_all(resolved(1, at=1000), resolved(40, at=10_000, offset=9), *late)
    made = account(*(decisions[number] for number in arrival))
    assert made.tenants.busiest(10_000)[0].tokens(10_000) == 445


def test_a_tenants_series_bear_kafkas_names_and_numbers():
    """A second after 60 of 55: K is -5 + 5, the rate 60 by ten windows."""
    series = samples(decision_families(account(decided(60), decided(2, 1, state=-5.0)), 1000, 10))
    assert (
        series.items()
        >= {
            alice("kafka_server_controllermutation_rate"): 6,
            alice("kafka_server_controllermutation_tokens"): 0,
            alice("kafka_server_controllermutation_throttle_time"): 1000,
            alice("mutation_quota_tenant_quota"): 5,
            alice("mutation_quota_tenant_burst"): 55,
            alice("mutation_quota_tenant_topics_total", ("outcome", "admitted")): 1,
            alice("mutation_quota_tenant_topics_total", ("outcome", "rejected")): 2,
        }.items()
    )


def test_only_the_busiest_tenants_have_their_own_series():
    """The number of tenants near their limit includes all of them."""
    users = [replace(decided(50 + number), user_tag=f"u{number}") for number in range(5)]
    series = samples(decision_families(account(*users), 0, 2))
    shown = {dict(labels)["user"] for name, *labels in series if name == "kafka_server_controllermutation_rate"}
    assert shown == {"u3", "u4"}
    assert series[("mutation_quota_tenants_hidden",)] == 3
    assert series[("mutation_quota_tenants_near_limit",)] == 5


def test_any_name_can_be_a_label():
    odd = 'a"b\\c\nd\u00e9\U0001f600'
    decision = replace(decided(1), user_tag=odd, client_tag="}", more_tags={"team \u00e9": "x=1,y"})
    rates = [labels for name, *labels in samples(decision_families(account(decision), 0, 10)) if name.endswith("_rate")]
    assert rates == [[("client_id", "}"), ("tags", '{"team \u00e9": "x=1,y"}'), ("user", odd)]]


def test_a_query_reports_its_last_batch_and_its_lag():
    ends = {("requests", 0): 15, ("requests", 1): 20}
    assert samples(query_families({"enforce": QueryView(90.0, 2.5, PROGRESS, ends)})) == {
        ("mutation_quota_query_lag_records", ENFORCE): 5,
        ("mutation_quota_query_batches_total", ENFORCE): 7,
        ("mutation_quota_query_start_timestamp_seconds", ENFORCE): 90.0,
        ("mutation_quota_query_last_batch_timestamp_seconds", ENFORCE): 100.5,
        ("mutation_quota_query_batch_under_way", ENFORCE): 0.0,
        ("mutation_quota_query_batch_seconds", ("phase", "addBatch"), ENFORCE): 0.25,
        ("mutation_quota_query_batch_seconds", ("phase", "triggerExecution"), ENFORCE): 0.5,
        ("mutation_quota_query_trigger_seconds", ENFORCE): 2.5,
        ("mutation_quota_state_rows", ENFORCE): 3,
        ("mutation_quota_state_bytes", ENFORCE): 4096,
    }


def test_in_its_first_batch_a_query_reports_its_start_and_no_lag():
    assert samples(query_families({"enforce": QueryView(90.0, 10.0, under_way=True)})) == {
        ("mutation_quota_query_start_timestamp_seconds", ENFORCE): 90.0,
        ("mutation_quota_query_last_batch_timestamp_seconds", ENFORCE): 90.0,
        ("mutation_quota_query_batch_under_way", ENFORCE): 1.0,
        ("mutation_quota_query_trigger_seconds", ENFORCE): 10.0,
    }


def test_a_gateway_reports_its_connections_and_what_went_wrong():
    stats = GatewayStats(connections=2, accepted=7, buffered_bytes=11, relayed=30, client_bytes=400, broker_bytes=5000)
    stats.undecided, stats.late = 5, 2
    for mutations in (2, 714):
        stats.add_uncharged("alice", mutations)
    stats.add_unrecorded("bob", {Reason.EXHAUSTED: 7})
    stats.closed = Counter({"malformed": 3, "idle": 1})
    stats.add_foreign([("kafka-1", 9092), ("kafka-1", 9092)])
    stats.broker_failures = {19_092: "kafka-1:9092: connection refused", 19_093: ""}
    assert (
        samples(gateway_families(stats, awaited=3)).items()
        >= {
            ("mutation_quota_gateway_connections",): 2,
            ("mutation_quota_gateway_accepted_connections_total",): 7,
            ("mutation_quota_gateway_closed_connections_total", ("reason", "malformed")): 3,
            ("mutation_quota_gateway_closed_connections_total", ("reason", "idle")): 1,
            ("mutation_quota_gateway_buffered_bytes",): 11,
            ("mutation_quota_gateway_relayed_requests_total",): 30,
            ("mutation_quota_gateway_bytes_total", ("sender", "clients")): 400,
            ("mutation_quota_gateway_bytes_total", ("sender", "brokers")): 5000,
            ("mutation_quota_gateway_awaited_decisions",): 3,
            ("mutation_quota_gateway_undecided_requests_total",): 5,
            ("mutation_quota_gateway_uncharged_mutations_total", ("user", "alice")): 716,
            ("mutation_quota_gateway_unrecorded_topics_total", ("reason", "EXHAUSTED"), ("user", "bob")): 7,
            ("mutation_quota_gateway_late_decisions_total",): 2,
            ("mutation_quota_gateway_foreign_addresses_total",): 2,
            ("mutation_quota_gateway_broker_up", ("port", "19092")): 0,
            ("mutation_quota_gateway_broker_up", ("port", "19093")): 1,
        }.items()
    )


@pytest.mark.parametrize(("version", "mode"), [(5, "permissive"), (6, "strict")])
def test_topics_of_a_gateway_are_reported_by_operation_mode_and_outcome(version, mode):
    stats = GatewayStats()
    request = RequestHeader(ApiKey.CREATE_TOPICS, version, 1, "app")
    reasons = {"rejected": "EXHAUSTED", "undecided": "NO_TIME", "invalid": "INVALID"}
    counts = {"admitted": 4, "rejected": 3, "failed": 2, "proceeded": 1, "undecided": 5, "invalid": 6}
    topics = {(outcome, reasons.get(outcome, "")): count for outcome, count in counts.items()}
    stats.add_mutation(request, MutationResponse({}, mute_ms=2500, topics=topics))
    series = samples(gateway_families(stats, 0))
    reported = {
        tuple(dict(labels)[key] for key in ("operation", "mode", "outcome", "reason")): count
        for (name, *labels), count in series.items()
        if name == "mutation_quota_gateway_topics_total" and count
    }
    assert reported == {("create_topics", mode, *kind): count for kind, count in topics.items()}
    assert series[("mutation_quota_gateway_mutes_total",)] == 1
    assert series[("mutation_quota_gateway_muted_seconds_total",)] == 2.5


def test_the_time_until_a_decision_is_a_histogram():
    stats = GatewayStats()
    for seconds in (0.05, 0.06, 0.4, 31.0):
        stats.add_decision(seconds)
    name = "mutation_quota_gateway_decision_seconds"
    buckets = values(gateway_families(stats, 0), f"{name}_bucket", "le")
    assert [buckets[bound] for bound in ("0.05", "0.1", "0.3", "0.5", "30.0", "+Inf")] == [1, 2, 2, 3, 3, 4]
    series = samples(gateway_families(stats, 0))
    assert (series[f"{name}_count",], round(series[f"{name}_sum",], 9)) == (4, 31.51)


def test_drift_is_reported_by_kind_once_the_cluster_was_compared():
    """Before that there is no zero, which would mean no drift."""
    alice, bob, name = QuotaEntity("alice"), QuotaEntity("bob"), "mutation_quota_push_differing_quotas"
    stats = PushStats()
    assert list(push_families(stats)) == []
    stats.compare(differences({alice: 5.0, bob: None}, {alice: 9.0, bob: 1.0, QuotaEntity(None): 2.0}), 1234.5)
    assert values(push_families(stats), name, "difference") == {
        "changed": 1,
        "missing": 0,
        "not_removed": 1,
        "only_there": 1,
    }
    assert samples(push_families(stats))["mutation_quota_push_last_comparison_timestamp_seconds",] == 1234.5
    stats.repaired = 3
    assert samples(push_families(stats))["mutation_quota_push_repaired_total",] == 3
    stats.compare([], 1300.0)
    assert values(push_families(stats), name, "difference")["changed"] == 0


def test_every_family_is_one_of_the_registry_with_its_labels_and_kind():
    """The page, the dashboard and the alerts are compared with the registry."""
    families = [
        *decision_families(account(decided(60)), 0, 10),
        *query_families({"enforce": QueryView(90.0, 2.5, PROGRESS, {("requests", 0): 10})}),
        *applier_families(ApplierStats()),
        *observer_families(FollowStats()),
        *gateway_families(GatewayStats(certificate_ends_at=1.0), 0),
        *push_families(PushStats(compared_at=1.0)),
        family("mutation_quota_upkeep_failures_total", {"decisions": 0}),
    ]
    known = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    for reported in families:
        metric = known[reported.name]
        assert reported.type == metric.kind
        for sample in reported.samples:
            assert sample.labels.keys() - {"le"} == set(metric.labels), sample
    reported_elsewhere = {
        "mutation_quota_callback_metadata_timestamp_seconds",
        "mutation_quota_quota_records",
        "mutation_quota_skipped_records",
        "mutation_quota_metrics_failures",
        "mutation_quota_standby_start_timestamp_seconds",
    }
    assert {reported.name for reported in families} == known.keys() - reported_elsewhere


def test_a_long_label_is_cut_and_two_that_begin_equally_stay_apart():
    """A Prometheus with a limit for labels rejects the whole scrape, not the one label."""
    shown = []
    for client_tag in ("c" * 200, "c" * 1000, "c" * 1001):
        decision = replace(decided(1), client_tag=client_tag)
        (rate_labels,) = [
            dict(labels) for name, *labels in samples(decision_families(account(decision), 0, 10)) if "_rate" in name
        ]
        shown.append(rate_labels["client_id"])
    assert shown[0] == "c" * 200
    assert [(len(label), label[:183]) for label in shown[1:]] == [(200, "c" * 183)] * 2
    assert shown[1] != shown[2]


@pytest.mark.parametrize(
    ("decision", "counts"),
    [
        # 55 at first: 60 leave -5, so 7 are rejected
        (decided(60, 7), MutationCounts(1, 1, 60, 7, charged=60)),
        (decided(60, 7, validate_only=True), MutationCounts()),
        # a repeat does not count again
        (replace(decided(5, 7, 9), repeats=Repeat("requests-0-1", topics=2)), MutationCounts(1, 0, 9, 0, charged=9)),
        # a quota in shadow admits everything, and charges what it would have admitted
        (
            replace(decided(5, 7, 9), shadow=Shadow(Outcome.PARTIAL, [0, 89, 89], 2400, 2400)),
            MutationCounts(3, 0, 21, 0, charged=5, shadow_rejected=2),
        ),
        # without a quota nothing is charged
        (decided(60, 7, rate=None), MutationCounts(2, 0, 67, 0, charged=0)),
    ],
)
def test_effective_topics_and_their_partitions_are_counted(decision, counts):
    assert MutationCounts.of(decision) == counts


def test_all_answers_are_summed_up():
    """60 of 55 are admitted, 20 of 10 too and then 40 are not; 7 and 8 in debt are rejected."""
    account = DecisionTotals(Window(), 10)
    for decision in (
        decided(60, at=0),
        decided(20, 40, at=3000, state=10.0),
        decided(7, 8, at=4000, state=-45.0),
        replace(decided(5, at=5000), shadow=Shadow(Outcome.REJECTED, [89], 1000, 1000)),
        replace(decided(5, at=6000), repeats=Repeat("requests-0-3", 1)),
    ):
        account.record(decision, at=decision.timestamp + 300)
    letter = DeadLetter(error="value: not JSON", value="?", timestamp=7000, source=Source("requests", 0, 9))
    account.record(letter, at=7001)

    assert account.counts.charged == 80
    assert (
        samples(decision_families(account, 7000, 10)).items()
        >= {
            ("mutation_quota_decisions_total", ("outcome", "admitted")): 3,
            ("mutation_quota_decisions_total", ("outcome", "partial")): 1,
            ("mutation_quota_decisions_total", ("outcome", "rejected")): 1,
            ("mutation_quota_topics_total", ("outcome", "admitted"), ("reason", "")): 3,
            ("mutation_quota_topics_total", ("outcome", "rejected"), ("reason", "EXHAUSTED")): 3,
            ("mutation_quota_topics_total", ("outcome", "rejected"), ("reason", "EXCEEDS_LIMIT")): 0,
            ("mutation_quota_mutations_total", ("outcome", "admitted")): 85,
            ("mutation_quota_mutations_total", ("outcome", "rejected")): 55,
            ("mutation_quota_shadow_rejected_topics_total",): 1,
            ("mutation_quota_repeats_total",): 1,
            ("mutation_quota_dead_letters_total",): 1,
            ("mutation_quota_decision_latency_seconds_bucket", ("le", "0.2")): 0,
            ("mutation_quota_decision_latency_seconds_bucket", ("le", "0.3")): 5,
            ("mutation_quota_decision_latency_seconds_sum",): 1.5,
        }.items()
    )


def test_each_latency_counts_in_all_bounds_that_it_does_not_exceed_and_a_negative_one_as_zero():
    latencies = Latencies()
    for latency_ms in (50, 51, 200, 60_000, 60_001, -7):
        latencies.add(latency_ms)
    counts = dict(latencies.cumulative())
    assert [counts[bound] for bound in (50, 100, 200, 30_000, 60_000, float("inf"))] == [2, 3, 4, 4, 5, 6]
    assert latencies.total_ms == 50 + 51 + 200 + 60_000 + 60_001


HOUR_MS = 3_600_000


def test_a_bucket_whose_decisions_are_all_dated_ahead_gains_from_their_receipt():
    """Of 500 tokens 40 are spent within 100 ms, and 5 s at 5 a second come back."""
    account = DecisionTotals(Window(), 10)
    for decision in decide_all(resolved(20, at=HOUR_MS), resolved(20, at=HOUR_MS + 100))[1]:
        account.record(decision, 1000)
    (tenant,) = account.tenants.busiest(1000)
    assert tenant.tokens(6000) == 500 - 20 + 0.5 - 20 + 25


def test_a_decision_dated_ahead_counts_from_its_receipt():
    """One of ten minutes' decisions is dated an hour ahead; the rate is that of the last 11 s, and ends with them."""
    start, account = 6_400_000, DecisionTotals(Window(), 10)
    for second in range(1, 601):
        wrong = replace(decided(5), timestamp=start + 3_600_000, retry_at=start + 3_600_000)
        decision = wrong if second == 300 else decided(1, at=start + 1000 * second)
        account.record(decision, start + 1000 * second)
    (tenant,) = account.tenants.busiest(start + 600_000)
    assert tenant.rate(start + 600_000) == pytest.approx(1.1, abs=0.1)
    assert tenant.tokens(start + 605_000) == 55  # 54 after one mutation
    assert tenant.rate(start + 620_000) == 0
    assert account.tenants.busiest(start + 600_000 + 3_600_000) == []


def tenant_of(*decisions):
    tenant = TenantMetrics(decisions[0], Window())
    for decision in decisions:
        tenant.record(decision, MutationCounts.of(decision))
    return tenant


BURST = decided(60)
"""At 0: 55 - 60 = -5."""


def test_a_rejected_request_is_not_charged_and_counts_as_activity():
    tenant = tenant_of(BURST, decided(30, at=0, state=-5.0))
    assert (tenant.rate(0), tenant.requested.measure(0)) == (6, 9)
    assert (tenant.topics_admitted, tenant.topics_rejected) == (1, 1)


def test_the_throttle_time_is_the_mean_of_the_last_minute():
    """Rejected at 0 with K = -5 for a second, and at 0.5 s with -2.5: 750 ms on average."""
    tenant = tenant_of(BURST, decided(1, at=0, state=-5.0), decided(1, at=500, state=-2.5))
    assert tenant.throttle_ms(500) == 750
    assert tenant.throttle_ms(60_499) == 750
    assert tenant.throttle_ms(60_500) == 0


def test_a_throttle_of_the_request_quota_is_not_attributed_to_the_bucket():
    assert tenant_of(decided(1, state=-5.0, request_throttle_ms=1000)).throttle_ms(0) == 0
    assert tenant_of(decided(1, state=-5.0, request_throttle_ms=999)).throttle_ms(0) == 1000


@pytest.mark.parametrize(("now", "near"), [(0, True), (3199, True), (3201, False)])
def test_less_than_a_fifth_of_the_burst_is_near_the_limit(now, near):
    """11 of 55 are there again 3.2 s after -5."""
    assert tenant_of(BURST).is_near_limit(now) is near


def test_a_late_copy_of_an_older_decision_does_not_turn_time_back():
    tenant = tenant_of(decided(60, at=1000, offset=1), decided(60, at=0, state=0.0))
    assert tenant.tokens(2000) == 0


def test_without_a_quota_no_tenant_is_near_its_limit():
    tenant = tenant_of(decided(60, rate=None))
    assert not tenant.is_limited
    assert (tenant.burst, tenant.tokens(0), tenant.is_near_limit(0)) == (0, 0, False)


def registry_of(most, *decisions):
    tenants = TenantRegistry(Window(), most)
    for decision in decisions:
        tenants.record(decision, MutationCounts.of(decision))
    return tenants


def of(user, partitions=1, at=0, **tags):
    """Return a decision on a user's request for so many partitions."""
    return replace(decided(partitions, at=at), user_tag=user, **tags)


def busiest(tenants, now=0):
    return [tenant.last.user_tag for tenant in tenants.busiest(now)]


def test_decisions_of_the_same_tags_belong_to_one_tenant():
    tenants = registry_of(10, of("alice"), of("bob"), of("alice"))
    assert [tenant.topics_admitted for tenant in tenants.busiest(0)] == [2, 1]
    assert len(registry_of(10, of("", more_tags={"group": "a"}), of("", more_tags={"group": "b"}))) == 2


def test_the_busiest_come_first_and_the_latest_among_equals():
    tenants = registry_of(10, of("small", 1), of("large", 9), of("old", 4), of("new", 4, at=1))
    assert busiest(tenants, 1) == ["large", "new", "old", "small"]
    assert busiest(tenants, 20_000)[0] == "new"  # there were no requests in the last 11 s


def test_tenants_without_a_request_for_an_hour_or_without_a_quota_have_no_series():
    tenants = registry_of(10, of("alice"), of("bob", at=1), decided(1, rate=None))
    assert (len(tenants), busiest(tenants, HOUR_MS)) == (3, ["bob"])


def test_invented_names_displace_the_least_busy_and_are_bounded():
    """Four are stored; at the fifth the two busiest of them stay, and so on."""
    tenants = registry_of(2, of("a", 4), of("b", 3), of("c", 2), of("d", 1), of("e", 1))
    assert (busiest(tenants), tenants.forgotten) == (["a", "b", "e"], 2)
    for number in range(1000):
        decision = of(f"made up {number}")
        tenants.record(decision, MutationCounts.of(decision))
        assert len(tenants) <= 4
    assert busiest(tenants)[:2] == ["a", "b"]


def test_expired_tenants_are_displaced_first_and_do_not_count_as_forgotten():
    tenants = registry_of(1, of("a", 4), of("b", 3), of("c", 2, at=HOUR_MS))
    assert (len(tenants), busiest(tenants, HOUR_MS), tenants.forgotten) == (1, ["c"], 0)
