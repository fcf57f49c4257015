"""The metrics for Prometheus: their definitions, in the order of the reference page, and their values."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import Any, Final, Literal

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from jobs.metrics.batches import QueryView
from jobs.metrics.totals import DecisionTotals, TenantMetrics
from quota.gateway.operations import UNDECIDED
from quota.gateway.stats import GatewayStats
from quota.kafka.applier import ApplierStats
from quota.records.decision import Outcome
from quota.records.reason import DECIDED, Reason
from quota.records.request import Operation


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of Prometheus; the name of a counter ends with `_total`."""

    name: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    is_histogram: bool = False

    @property
    def kind(self) -> Literal["gauge", "counter", "histogram"]:
        """The type."""
        return "histogram" if self.is_histogram else "counter" if self.name.endswith("_total") else "gauge"


STARTED: Final = "mutation_quota_query_start_timestamp_seconds"
STANDBY: Final = "mutation_quota_standby_start_timestamp_seconds"

_MAX_LABEL_CHARS = 200
_TENANT = ("user", "client_id", "tags")
_QUERY = ("query",)

METRICS: Final = (
    Metric(
        "kafka_server_controllermutation_rate",
        "mutations/s",
        "mutations charged to the tenant's bucket per second, over the last S * W seconds, by Kafka's samples",
        _TENANT,
    ),
    Metric(
        "kafka_server_controllermutation_tokens",
        "mutations",
        "K, the tokens in the tenant's bucket now; a value below 0 is debt",
        _TENANT,
    ),
    Metric(
        "kafka_server_controllermutation_throttle_time",
        "ms",
        "mean throttle time of the bucket in the last minute; 0 if no request was throttled",
        _TENANT,
    ),
    Metric("mutation_quota_tenant_quota", "mutations/s", "Q at the tenant's last decision", _TENANT),
    Metric("mutation_quota_tenant_burst", "mutations", "B at the tenant's last decision", _TENANT),
    Metric(
        "mutation_quota_tenant_topics_total",
        "topics",
        "topics of the tenant's effective mutations, `admitted` or `rejected`",
        (*_TENANT, "outcome"),
    ),
    Metric(
        "mutation_quota_tenants_near_limit",
        "tenants",
        "tenants that have less than a fifth of their burst now, including those without their own series",
    ),
    Metric(
        "mutation_quota_tenants_hidden",
        "tenants",
        "tenants active in the last hour without their own series: only the 500 busiest have them",
    ),
    Metric(
        "mutation_quota_tenants_forgotten_total",
        "tenants",
        "active tenants that were dropped, because there were more than 1,000",
    ),
    Metric(
        "mutation_quota_decisions_total",
        "decisions",
        "decisions that admitted all topics (`admitted`), some (`partial`), or none (`rejected`)",
        ("outcome",),
    ),
    Metric(
        "mutation_quota_topics_total",
        "topics",
        "topics of effective mutations, `admitted`, or `rejected` for a [reason](../errors.md#rejected-topics)",
        ("outcome", "reason"),
    ),
    Metric(
        "mutation_quota_mutations_total",
        "mutations",
        "effective mutations (partitions), `admitted` or `rejected`",
        ("outcome",),
    ),
    Metric(
        "mutation_quota_shadow_rejected_topics_total", "topics", "topics admitted only because their quota is in shadow"
    ),
    Metric("mutation_quota_repeats_total", "decisions", "decisions on repeated requests, which are charged once"),
    Metric("mutation_quota_dead_letters_total", "records", "invalid records of the request topic"),
    Metric(
        "mutation_quota_decision_latency_seconds",
        "s",
        "time from the request's timestamp to its decision's timestamp, by the brokers' clocks",
        is_histogram=True,
    ),
    Metric(
        "mutation_quota_callback_metadata_timestamp_seconds",
        "seconds",
        "time of the cluster's metadata that a callback has; none without a callback, or if none were published",
    ),
    Metric(
        "mutation_quota_quota_records_total",
        "records",
        "log end offset of the quota topic, which rises with each quota change",
    ),
    Metric(
        "mutation_quota_query_lag_records",
        "records",
        "records between the query's last batch and the log end offsets of its topics",
        _QUERY,
    ),
    Metric(
        "mutation_quota_query_batches_total",
        "batches",
        "batches finished since the checkpoint was created (`applier`: since its start)",
        _QUERY,
    ),
    Metric(
        STARTED,
        "s since the epoch",
        "start time of the job; also reported by `gateway`, `applier`, `observe` and `push`",
        _QUERY,
    ),
    Metric(
        STANDBY,
        "s since the epoch",
        "time since which a second `enforce` is ready to take over; it reports no other metrics",
        _QUERY,
    ),
    Metric(
        "mutation_quota_query_last_batch_timestamp_seconds",
        "s since the epoch",
        "time at which the last batch ended, or at first the start time of the job",
        _QUERY,
    ),
    Metric(
        "mutation_quota_query_batch_under_way",
        "batches",
        "1 while a batch with records is processed, including the first one after a start",
        _QUERY,
    ),
    Metric(
        "mutation_quota_query_batch_seconds",
        "s",
        "duration of the last batch, for each of Spark's phases; `triggerExecution` is the total",
        (*_QUERY, "phase"),
    ),
    Metric(
        "mutation_quota_query_trigger_seconds",
        "s",
        "configured time between batches; 0 if the next batch starts immediately",
        _QUERY,
    ),
    Metric("mutation_quota_state_rows", "rows", "rows of the query's state, one per bucket", _QUERY),
    Metric("mutation_quota_state_bytes", "bytes", "memory used by the query's state", _QUERY),
    Metric(
        "mutation_quota_upkeep_failures_total",
        "failures",
        "parts of the upkeep of a Delta table (the daily part, compaction) that failed or took too long; "
        "they are tried again an hour later",
        ("table",),
    ),
    Metric(
        "mutation_quota_applied_topics_total",
        "topics",
        "admitted topics that were `carried_out`, `found_done` (by an earlier applier), or `failed`",
        ("outcome",),
    ),
    Metric(
        "mutation_quota_observed_requests_total",
        "requests",
        "requests with a mutation that were read from the request logs",
    ),
    Metric(
        "mutation_quota_observed_mutations_total",
        "mutations",
        "mutations in requests that were read from the request logs",
    ),
    Metric(
        "mutation_quota_observed_rejected_topics_total",
        "topics",
        "topics that the cluster itself rejected because of a quota",
    ),
    Metric(
        "mutation_quota_observed_assumed_topics_total",
        "topics",
        "topics whose cost is not in the logs, and is assumed to be 1",
    ),
    Metric("mutation_quota_observed_invalid_lines_total", "lines", "lines with a mutation that cannot be parsed"),
    Metric("mutation_quota_observed_invalid_bytes_total", "bytes", "bytes of lines that cannot be parsed"),
    Metric("mutation_quota_observed_behind_bytes", "bytes", "bytes of the request logs that are not read yet"),
    Metric(
        "mutation_quota_push_differing_quotas",
        "quotas",
        "quotas of the cluster that differ from the quota log: `changed`, `missing`, `not_removed`, or `only_there`",
        ("difference",),
    ),
    Metric(
        "mutation_quota_push_repaired_total",
        "quotas",
        "quotas that were set or removed on the cluster again, because someone had changed them there",
    ),
    Metric(
        "mutation_quota_push_last_comparison_timestamp_seconds",
        "s since the epoch",
        "time at which the cluster's quotas were last compared with the quota log",
    ),
    Metric(
        "mutation_quota_gateway_connections", "connections", "open connections of clients; each has one to a broker"
    ),
    Metric(
        "mutation_quota_gateway_accepted_connections_total", "connections", "connections of clients that were accepted"
    ),
    Metric(
        "mutation_quota_gateway_closed_connections_total",
        "connections",
        "connections of clients that the gateway itself closed, by reason",
        ("reason",),
    ),
    Metric(
        "mutation_quota_gateway_buffered_bytes",
        "bytes",
        "bytes that all connections buffer; above 128 MiB each is read 16 KiB at a time",
    ),
    Metric("mutation_quota_gateway_relayed_requests_total", "requests", "requests forwarded to brokers unchanged"),
    Metric("mutation_quota_gateway_bytes_total", "bytes", "bytes received from `clients` or `brokers`", ("sender",)),
    Metric(
        "mutation_quota_gateway_topics_total",
        "topics",
        "topics of intercepted requests: `admitted` or `rejected` by a decision, `failed` by the "
        "cluster's validation, `invalid` by a dead letter; without a decision `undecided`, or `proceeded` if the "
        "gateway fails open; those that it rejects have a [reason](../errors.md#rejected-topics)",
        ("operation", "mode", "outcome", "reason"),
    ),
    Metric(
        "mutation_quota_gateway_unrecorded_topics_total",
        "topics",
        "topics that were rejected without a decision or a dead letter, as those of a client that asks again within a "
        "second; those of more than 500 users are counted without a user",
        ("reason", "user"),
    ),
    Metric(
        "mutation_quota_gateway_decision_seconds",
        "s",
        "time from the request for a decision to the decision, by the gateway's clock",
        is_histogram=True,
    ),
    Metric("mutation_quota_gateway_awaited_decisions", "decisions", "decisions that are awaited now"),
    Metric(
        "mutation_quota_gateway_undecided_requests_total",
        "requests",
        "requests without a decision in time, and those whose client has too little time for one",
    ),
    Metric(
        "mutation_quota_gateway_uncharged_mutations_total",
        "mutations",
        "mutations that proceeded without a decision, because the gateway fails open, and are never charged; those of "
        "more than 500 users are counted without a user",
        ("user",),
    ),
    Metric(
        "mutation_quota_gateway_late_decisions_total",
        "decisions",
        "decisions that arrived too late: withdrawn, and charged only on users' own topics or for a retry",
    ),
    Metric("mutation_quota_gateway_mutes_total", "times", "times that a client was muted (KIP-219)"),
    Metric(
        "mutation_quota_gateway_muted_seconds_total",
        "s",
        "sum of all throttle times; its rate is about the number of clients that are muted at the same time",
    ),
    Metric(
        "mutation_quota_gateway_foreign_addresses_total",
        "addresses",
        "addresses in brokers' responses that would bypass the gateway, and are removed",
    ),
    Metric(
        "mutation_quota_gateway_broker_up",
        "brokers",
        "1 if the broker behind a port responds; while it is 0, connections to the port lead to another broker",
        ("port",),
    ),
    Metric(
        "mutation_quota_gateway_certificate_end_timestamp_seconds",
        "seconds",
        "the time until which the gateway's certificate for clients is valid; none without TLS",
    ),
    Metric(
        "mutation_quota_skipped_records_total",
        "records",
        "records of our topics that this program has skipped, because they are malformed; its log names some",
        ("topic",),
    ),
    Metric(
        "mutation_quota_metrics_failures_total",
        "failures",
        "failures to read decisions or query progress for the metrics; the job continues",
    ),
)
"""All metrics, in the order of the reference page."""

_METRICS = {metric.name: metric for metric in METRICS}

_MODES = ("strict", "permissive")
_OUTCOMES = (
    *((outcome, "") for outcome in ("admitted", "failed", "proceeded")),
    *((UNDECIDED.get(reason, "rejected"), reason.value) for reason in Reason),
)
"""The outcomes of topics at a gateway with their reasons (`quota.gateway.operations.MutationResponse`)."""


def family(name: str, value: float | Mapping[Any, float]) -> Family:
    """Return a metric with its number, or with its numbers by the value of its label, or the values of its labels."""
    metric = _METRICS[name]
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    made = kind(name, metric.meaning, labels=metric.labels)
    for labels, number in value.items() if isinstance(value, Mapping) else [((), value)]:
        made.add_metric((labels,) if isinstance(labels, str) else labels, number)
    return made


def decision_families(totals: DecisionTotals, now: int, max_tenants: int) -> Iterator[Family]:
    """Yield the metrics of answers as of `now` (epoch ms), with separate series for the busiest tenants."""
    tenants = totals.tenants.busiest(now)
    yield from _tenant_families({_labels(tenant): tenant for tenant in tenants[:max_tenants]}, now)
    yield family("mutation_quota_tenants_near_limit", sum(tenant.is_near_limit(now) for tenant in tenants))
    yield family("mutation_quota_tenants_hidden", max(0, len(tenants) - max_tenants))
    yield family("mutation_quota_tenants_forgotten_total", totals.tenants.forgotten)
    decisions = {outcome.value.lower(): totals.decisions[outcome] for outcome in Outcome}
    yield family("mutation_quota_decisions_total", decisions)
    counts = totals.counts
    rejected = {("rejected", reason.value): totals.reasons[reason] for reason in DECIDED}
    yield family("mutation_quota_topics_total", {("admitted", ""): counts.topics_admitted, **rejected})
    mutations = {"admitted": counts.mutations_admitted, "rejected": counts.mutations_rejected}
    yield family("mutation_quota_mutations_total", mutations)
    yield family("mutation_quota_shadow_rejected_topics_total", counts.shadow_rejected)
    yield family("mutation_quota_repeats_total", totals.repeats)
    yield family("mutation_quota_dead_letters_total", totals.dead_letters)
    buckets = [(bound_ms / 1000, count) for bound_ms, count in totals.latencies.cumulative()]
    yield _histogram("mutation_quota_decision_latency_seconds", buckets, totals.latencies.total_ms / 1000)


def query_families(queries: Mapping[str, QueryView]) -> Iterator[Family]:
    """Yield the metrics of queries by their names."""
    last = {name: query.last for name, query in queries.items() if query.last is not None}
    lags = {name: batch.lag(queries[name].ends) for name, batch in last.items() if queries[name].ends}
    yield family("mutation_quota_query_lag_records", lags)
    yield family("mutation_quota_query_batches_total", {name: batch.batch + 1 for name, batch in last.items()})
    yield family(STARTED, {name: query.started_at for name, query in queries.items()})
    ended = {name: query.last.ended_at if query.last else query.started_at for name, query in queries.items()}
    yield family("mutation_quota_query_last_batch_timestamp_seconds", ended)
    under_way = {name: float(query.under_way) for name, query in queries.items()}
    yield family("mutation_quota_query_batch_under_way", under_way)
    phases = {(name, phase): seconds for name, batch in last.items() for phase, seconds in batch.phases.items()}
    yield family("mutation_quota_query_batch_seconds", phases)
    yield family(
        "mutation_quota_query_trigger_seconds", {name: query.trigger_seconds for name, query in queries.items()}
    )
    rows = {name: batch.state_rows for name, batch in last.items() if batch.state_rows is not None}
    yield family("mutation_quota_state_rows", rows)
    sizes = {name: batch.state_bytes for name, batch in last.items() if batch.state_bytes is not None}
    yield family("mutation_quota_state_bytes", sizes)


def applier_families(stats: ApplierStats) -> Iterator[Family]:
    """Yield the metrics of an applier."""
    topics = {"carried_out": stats.topics, "found_done": stats.found_done, "failed": stats.failed}
    yield family("mutation_quota_applied_topics_total", topics)


def gateway_families(stats: GatewayStats, awaited: int) -> Iterator[Family]:
    """Yield the metrics of a gateway that waits for this number of decisions."""
    yield family("mutation_quota_gateway_connections", stats.connections)
    yield family("mutation_quota_gateway_accepted_connections_total", stats.accepted)
    yield family("mutation_quota_gateway_closed_connections_total", dict(stats.closed))
    yield family("mutation_quota_gateway_buffered_bytes", stats.buffered_bytes)
    yield family("mutation_quota_gateway_relayed_requests_total", stats.relayed)
    received = {"clients": stats.client_bytes, "brokers": stats.broker_bytes}
    yield family("mutation_quota_gateway_bytes_total", received)
    kinds = product((operation.value.lower() for operation in Operation), _MODES, _OUTCOMES)
    labels = [(operation, mode, *outcome) for operation, mode, outcome in kinds]
    yield family("mutation_quota_gateway_topics_total", {topic: stats.mutations[topic] for topic in labels})
    unrecorded = {(reason, _label(user)): topics for (reason, user), topics in dict(stats.unrecorded).items()}
    yield family("mutation_quota_gateway_unrecorded_topics_total", unrecorded)
    yield _histogram("mutation_quota_gateway_decision_seconds", stats.decisions(), stats.decision_seconds)
    yield family("mutation_quota_gateway_awaited_decisions", awaited)
    yield family("mutation_quota_gateway_undecided_requests_total", stats.undecided)
    uncharged = {_label(user): mutations for user, mutations in dict(stats.uncharged).items()}
    yield family("mutation_quota_gateway_uncharged_mutations_total", uncharged)
    yield family("mutation_quota_gateway_late_decisions_total", stats.late)
    yield family("mutation_quota_gateway_mutes_total", stats.muted)
    yield family("mutation_quota_gateway_muted_seconds_total", stats.muted_ms / 1000)
    yield family("mutation_quota_gateway_foreign_addresses_total", stats.foreign_addresses)
    up = {str(port): float(not failure) for port, failure in stats.broker_failures.copy().items()}
    yield family("mutation_quota_gateway_broker_up", up)
    if stats.certificate_ends_at is not None:
        yield family("mutation_quota_gateway_certificate_end_timestamp_seconds", stats.certificate_ends_at)


def _tenant_families(tenants: Mapping[tuple[str, ...], TenantMetrics], now: int) -> Iterator[Family]:
    def of_each(name: str, value: Callable[[TenantMetrics], float]) -> Family:
        return family(name, {labels: value(tenant) for labels, tenant in tenants.items()})

    yield of_each("kafka_server_controllermutation_rate", lambda tenant: tenant.rate(now))
    yield of_each("kafka_server_controllermutation_tokens", lambda tenant: tenant.tokens(now))
    yield of_each("kafka_server_controllermutation_throttle_time", lambda tenant: tenant.throttle_ms(now))
    yield of_each("mutation_quota_tenant_quota", lambda tenant: tenant.last.quota or 0.0)
    yield of_each("mutation_quota_tenant_burst", lambda tenant: tenant.burst)
    topics = {
        (*labels, outcome): count
        for labels, tenant in tenants.items()
        for outcome, count in (("admitted", tenant.topics_admitted), ("rejected", tenant.topics_rejected))
    }
    yield family("mutation_quota_tenant_topics_total", topics)


def _labels(tenant: TenantMetrics) -> tuple[str, ...]:
    """Return Kafka's tags, and other tags of a callback as JSON, because the names of labels are restricted."""
    last = tenant.last
    more = json.dumps(last.more_tags, ensure_ascii=False, sort_keys=True) if last.more_tags else ""
    return _label(last.user_tag), _label(last.client_tag), _label(more)


def _label(value: str) -> str:
    """Return a value that a Prometheus with `label_value_length_limit` accepts: a long one is cut, with its digest."""
    if len(value) <= _MAX_LABEL_CHARS:
        return value
    digest = blake2b(value.encode(), digest_size=8).hexdigest()
    return f"{value[: _MAX_LABEL_CHARS - len(digest) - 1]}…{digest}"


def _histogram(name: str, buckets: Iterable[tuple[float, int]], total: float) -> Family:
    """Return a histogram with the number of values up to each bound, the last one infinite, and their sum."""
    labelled = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in buckets]
    return HistogramMetricFamily(name, _METRICS[name].meaning, labelled, total)
