"""Metric families for prometheus-client: the metrics of `jobs.metrics.definitions` with their samples."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from jobs.metrics import definitions as metric
from jobs.metrics.definitions import Metric
from jobs.metrics.query_progress import QueryView
from jobs.metrics.stats import FollowStats, PushStats
from jobs.metrics.tenants import TenantMetrics
from jobs.metrics.totals import DecisionTotals
from quota.gateway.stats import GatewayStats
from quota.kafka.applier.stats import ApplierStats
from quota.records.decision import Outcome
from quota.records.request import Operation
from quota.timeline.cluster_plan import KINDS

_Samples = Iterable[tuple[tuple[str, ...], float]]

_MODES = ("strict", "permissive")
_OUTCOMES = ("admitted", "refused", "failed", "invalid", "undecided", "proceeded")
"""The outcomes of topics at a gateway (`quota.gateway.mutations.operations.MutationResponse`)."""


def decision_families(totals: DecisionTotals, now: int, max_tenants: int) -> Iterator[Family]:
    """Yield the metrics of answers as of `now` (epoch ms), with separate series for the busiest tenants."""
    tenants = totals.tenants.busiest(now)
    yield from _tenant_families(tenants[:max_tenants], now)
    near = sum(each.is_near_limit(now) for each in tenants)
    yield _family(metric.TENANTS_NEAR_LIMIT, [((), near)])
    yield _family(metric.TENANTS_HIDDEN, [((), max(0, len(tenants) - max_tenants))])
    yield _family(metric.TENANTS_FORGOTTEN, [((), totals.tenants.forgotten)])
    decisions = [((outcome.value.lower(),), totals.decisions[outcome]) for outcome in Outcome]
    yield _family(metric.DECISIONS, decisions)
    yield _family(metric.TOPICS, _outcomes(totals.topics_admitted, totals.topics_refused))
    yield _family(metric.MUTATIONS, _outcomes(totals.mutations_admitted, totals.mutations_refused))
    yield _family(metric.SHADOW_REFUSED, [((), totals.shadow_refused)])
    yield _family(metric.REPEATS, [((), totals.repeats)])
    yield _family(metric.DEAD_LETTERS, [((), totals.dead_letters)])
    buckets = [(_le(bound_ms / 1000), count) for bound_ms, count in totals.latencies.cumulative()]
    yield HistogramMetricFamily(metric.LATENCY.name, metric.LATENCY.meaning, buckets, totals.latencies.total_ms / 1000)


def query_families(queries: Mapping[str, QueryView]) -> Iterator[Family]:
    """Yield the metrics of queries by their names."""
    finished = {(name,): query.last for name, query in queries.items() if query.last is not None}
    lags = [((name,), view.last.lag(view.ends)) for name, view in queries.items() if view.last and view.ends]
    yield _family(metric.LAG, lags)
    yield _family(metric.BATCHES, [(name, last.batch + 1) for name, last in finished.items()])
    yield _family(metric.STARTED, [((name,), view.started_at) for name, view in queries.items()])
    ended = [((name,), view.last.ended_at if view.last else view.started_at) for name, view in queries.items()]
    yield _family(metric.LAST_BATCH, ended)
    yield _family(metric.UNDER_WAY, [((name,), float(view.under_way)) for name, view in queries.items()])
    phases = [((*name, phase), seconds) for name, last in finished.items() for phase, seconds in last.phases.items()]
    yield _family(metric.BATCH_TIME, phases)
    yield _family(metric.TRIGGER, [((name,), view.trigger_seconds) for name, view in queries.items()])
    states = [(name, last.state_rows, last.state_bytes) for name, last in finished.items()]
    yield _family(metric.STATE_ROWS, [(name, rows) for name, rows, _ in states if rows is not None])
    yield _family(metric.STATE_BYTES, [(name, size) for name, _, size in states if size is not None])


def upkeep_family(failures: Mapping[str, int]) -> Family:
    """Return the failures of the upkeep by the names of tables."""
    return _family(metric.UPKEEP_FAILURES, [((table,), count) for table, count in dict(failures).items()])


def applier_families(stats: ApplierStats) -> Iterator[Family]:
    """Yield the metrics of an applier."""
    topics = {"carried_out": stats.topics, "found_done": stats.found_done, "failed": stats.failed}
    yield _family(metric.APPLIED, [((outcome,), count) for outcome, count in topics.items()])
    yield number_family(metric.REOPENED, stats.reopened)


def observer_families(stats: FollowStats) -> Iterator[Family]:
    """Yield the metrics of an observer of request logs."""
    yield number_family(metric.OBSERVED_REQUESTS, stats.requests)
    yield number_family(metric.OBSERVED_MUTATIONS, stats.mutations)
    yield number_family(metric.OBSERVED_REFUSED, stats.refused_topics)
    yield number_family(metric.OBSERVED_ASSUMED, stats.assumed_topics)
    yield number_family(metric.OBSERVED_INVALID, stats.invalid_lines)
    yield number_family(metric.OBSERVED_BEHIND, stats.behind_bytes)


def push_families(stats: PushStats) -> Iterator[Family]:
    """Yield the metrics of a service that pushes quotas; none before its first comparison."""
    if stats.compared_at is not None:
        differing = [((kind,), stats.differing.get(kind, 0)) for kind in KINDS]
        yield _family(metric.PUSH_DIFFERING, differing)
        yield number_family(metric.PUSH_COMPARED, stats.compared_at)


def start_family(name: str, started_at: float) -> Family:
    """Return the metric of the start time of a job without queries [s since the epoch]."""
    return _family(metric.STARTED, [((name,), started_at)])


def gateway_families(stats: GatewayStats, awaited: int) -> Iterator[Family]:
    """Yield the metrics of a gateway that waits for this number of decisions."""
    yield number_family(metric.GATEWAY_CONNECTIONS, stats.connections)
    yield number_family(metric.GATEWAY_ACCEPTED, stats.accepted)
    yield _family(metric.GATEWAY_CLOSED, [((reason,), count) for reason, count in dict(stats.closed).items()])
    yield number_family(metric.GATEWAY_RELAYED, stats.relayed)
    yield _family(metric.GATEWAY_BYTES, [(("clients",), stats.client_bytes), (("brokers",), stats.broker_bytes)])
    labels = product((each.value.lower() for each in Operation), _MODES, _OUTCOMES)
    yield _family(metric.GATEWAY_TOPICS, [(each, stats.mutations[each]) for each in labels])
    buckets = [(_le(bound), count) for bound, count in stats.decisions()]
    name, meaning = metric.GATEWAY_DECISION.name, metric.GATEWAY_DECISION.meaning
    yield HistogramMetricFamily(name, meaning, buckets, stats.decision_seconds)
    yield number_family(metric.GATEWAY_AWAITED, awaited)
    yield number_family(metric.GATEWAY_UNDECIDED, stats.undecided)
    yield number_family(metric.GATEWAY_LATE, stats.late)
    yield number_family(metric.GATEWAY_MUTES, stats.muted)
    yield number_family(metric.GATEWAY_MUTED, stats.muted_ms / 1000)
    yield number_family(metric.GATEWAY_FOREIGN, stats.foreign_addresses)


def number_family(definition: Metric, number: float) -> Family:
    """Return a metric without labels."""
    return _family(definition, [((), number)])


def _tenant_families(tenants: list[TenantMetrics], now: int) -> Iterator[Family]:
    labelled = [(_labels(each), each) for each in tenants]
    yield _family(metric.RATE, [(labels, each.rate(now)) for labels, each in labelled])
    yield _family(metric.TOKENS, [(labels, each.tokens(now)) for labels, each in labelled])
    yield _family(metric.THROTTLE_TIME, [(labels, each.throttle_ms(now)) for labels, each in labelled])
    yield _family(metric.TENANT_QUOTA, [(labels, each.last.quota or 0.0) for labels, each in labelled])
    yield _family(metric.TENANT_BURST, [(labels, each.burst) for labels, each in labelled])
    topics = [
        ((*labels, *outcome), count)
        for labels, each in labelled
        for outcome, count in _outcomes(each.topics_admitted, each.topics_refused)
    ]
    yield _family(metric.TENANT_TOPICS, topics)


def _labels(tenant: TenantMetrics) -> tuple[str, str, str]:
    """Return Kafka's tags, and other tags of a callback as JSON, because the names of labels are restricted."""
    last = tenant.last
    more = json.dumps(last.more_tags, ensure_ascii=False, sort_keys=True) if last.more_tags else ""
    return last.user_tag, last.client_tag, more


def _outcomes(admitted: float, refused: float) -> list[tuple[tuple[str, ...], float]]:
    return [(("admitted",), admitted), (("refused",), refused)]


def _le(bound: float) -> str:
    """Return the label `le` of a histogram's bucket [s]."""
    return "+Inf" if bound == float("inf") else str(bound)


def _family(definition: Metric, samples: _Samples) -> Family:
    kind = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    family = kind(definition.name, definition.meaning, labels=definition.labels)
    for labels, number in samples:
        family.add_metric(labels, number)
    return family
