"""From what a job knows to what Prometheus reads: the families of `jobs.metrics.definitions`, with their samples."""

import json
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from jobs.metrics import definitions as metric
from jobs.metrics.definitions import Metric
from jobs.metrics.query_progress import QueryView
from jobs.metrics.tenants import TenantMetrics
from jobs.metrics.totals import DecisionTotals
from quota.kafka.applier.stats import ApplierStats
from quota.records.decision import Outcome

_Samples = Iterable[tuple[tuple[str, ...], float]]


def decision_families(account: DecisionTotals, now: int, most_tenants: int) -> Iterator[Family]:
    """What the answers come to by `now` (epoch ms), for so many tenants one by one."""
    tenants = account.tenants.busiest(now)
    yield from _tenant_families(tenants[:most_tenants], now)
    near = sum(each.is_near_limit(now) for each in tenants)
    yield _family(metric.TENANTS_NEAR_LIMIT, [((), near)])
    yield _family(metric.TENANTS_HIDDEN, [((), max(0, len(tenants) - most_tenants))])
    yield _family(metric.TENANTS_FORGOTTEN, [((), account.tenants.forgotten)])
    decisions = [((outcome.value.lower(),), account.decisions[outcome]) for outcome in Outcome]
    yield _family(metric.DECISIONS, decisions)
    yield _family(metric.TOPICS, _outcomes(account.topics_admitted, account.topics_refused))
    yield _family(metric.MUTATIONS, _outcomes(account.mutations_admitted, account.mutations_refused))
    yield _family(metric.SHADOW_REFUSED, [((), account.shadow_refused)])
    yield _family(metric.REPEATS, [((), account.repeats)])
    yield _family(metric.DEAD_LETTERS, [((), account.dead_letters)])
    buckets = [(_bound(bound), count) for bound, count in account.latencies.cumulative()]
    yield HistogramMetricFamily(metric.LATENCY.name, metric.LATENCY.meaning, buckets, account.latencies.total_ms / 1000)


def query_families(queries: Mapping[str, QueryView]) -> Iterator[Family]:
    """What there is to tell of queries, by their names."""
    done = {(name,): query.last for name, query in queries.items() if query.last is not None}
    lags = [((name,), view.last.lag(view.ends)) for name, view in queries.items() if view.last and view.ends]
    yield _family(metric.LAG, lags)
    yield _family(metric.BATCHES, [(name, last.batch + 1) for name, last in done.items()])
    yield _family(metric.STARTED, [((name,), view.started_at) for name, view in queries.items()])
    ended = [((name,), view.last.ended_at if view.last else view.started_at) for name, view in queries.items()]
    yield _family(metric.LAST_BATCH, ended)
    yield _family(metric.UNDER_WAY, [((name,), float(view.under_way)) for name, view in queries.items()])
    phases = [((*name, phase), taken) for name, last in done.items() for phase, taken in last.phases.items()]
    yield _family(metric.BATCH_TIME, phases)
    yield _family(metric.TRIGGER, [((name,), view.trigger_seconds) for name, view in queries.items()])
    states = [(name, last.state_rows, last.state_bytes) for name, last in done.items()]
    yield _family(metric.STATE_ROWS, [(name, rows) for name, rows, _ in states if rows is not None])
    yield _family(metric.STATE_BYTES, [(name, size) for name, _, size in states if size is not None])


def applier_families(tally: ApplierStats) -> Iterator[Family]:
    """What an applier has done."""
    topics = {"carried_out": tally.topics, "found_done": tally.found_done, "failed": tally.failed}
    yield _family(metric.APPLIED, [((outcome,), count) for outcome, count in topics.items()])
    yield number_family(metric.REOPENED, tally.reopened)


def number_family(of: Metric, number: float) -> Family:
    """A metric without labels."""
    return _family(of, [((), number)])


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


def _labels(standing: TenantMetrics) -> tuple[str, str, str]:
    """Kafka's tags; those that a callback has besides as JSON, for a label's name cannot be just any text."""
    last = standing.last
    more = json.dumps(last.more_tags, ensure_ascii=False, sort_keys=True) if last.more_tags else ""
    return last.user_tag, last.client_tag, more


def _outcomes(admitted: float, refused: float) -> list[tuple[tuple[str, ...], float]]:
    return [(("admitted",), admitted), (("refused",), refused)]


def _bound(bound_ms: float) -> str:
    """A bucket's `le`, in seconds."""
    return "+Inf" if bound_ms == float("inf") else str(bound_ms / 1000)


def _family(of: Metric, samples: _Samples) -> Family:
    kind = CounterMetricFamily if of.kind == "counter" else GaugeMetricFamily
    family = kind(of.name, of.meaning, labels=of.labels)
    for labels, number in samples:
        family.add_metric(labels, number)
    return family
