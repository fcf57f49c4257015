"""The definitions of the metrics in the order of `docs/reference/metrics.md`, with their units, labels and meanings."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of Prometheus; the name of a counter ends with `_total`."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()


_TENANT = ("user", "client_id", "tags")
_QUERY = ("query",)

RATE = Metric(
    "kafka_server_controllermutation_rate",
    "gauge",
    "mutations/s",
    "what the tenant's bucket was charged over the last S * W seconds, by Kafka's samples",
    _TENANT,
)
TOKENS = Metric(
    "kafka_server_controllermutation_tokens",
    "gauge",
    "mutations",
    "what the tenant's bucket holds by now; below 0 it is in debt",
    _TENANT,
)
THROTTLE_TIME = Metric(
    "kafka_server_controllermutation_throttle_time",
    "gauge",
    "ms",
    "the mean of the throttle times that the bucket asked for in the last minute, 0 where it asked for none",
    _TENANT,
)
TENANT_QUOTA = Metric(
    "mutation_quota_tenant_quota", "gauge", "mutations/s", "Q as the tenant's last decision had it", _TENANT
)
TENANT_BURST = Metric(
    "mutation_quota_tenant_burst", "gauge", "mutations", "B as the tenant's last decision had it", _TENANT
)
TENANT_TOPICS = Metric(
    "mutation_quota_tenant_topics_total",
    "counter",
    "topics",
    "asked for by the tenant in earnest, `admitted` or `refused`",
    (*_TENANT, "outcome"),
)
TENANTS_NEAR_LIMIT = Metric(
    "mutation_quota_tenants_near_limit",
    "gauge",
    "tenants",
    "hold less than a fifth of their burst now, those without series of their own too",
)
TENANTS_HIDDEN = Metric(
    "mutation_quota_tenants_hidden",
    "gauge",
    "tenants",
    "active in the last hour, and less busy than the `metrics.max_tenants` that have series of their own",
)
TENANTS_FORGOTTEN = Metric(
    "mutation_quota_tenants_forgotten_total",
    "counter",
    "tenants",
    "dropped while active, because there were twice as many as `metrics.max_tenants`",
)
DECISIONS = Metric(
    "mutation_quota_decisions_total",
    "counter",
    "decisions",
    "all topics `admitted`, some (`partial`), or all `rejected`",
    ("outcome",),
)
TOPICS = Metric(
    "mutation_quota_topics_total", "counter", "topics", "asked for in earnest, `admitted` or `refused`", ("outcome",)
)
MUTATIONS = Metric(
    "mutation_quota_mutations_total", "counter", "mutations", "likewise, the partitions of these topics", ("outcome",)
)
SHADOW_REFUSED = Metric(
    "mutation_quota_shadow_refused_topics_total",
    "counter",
    "topics",
    "admitted, and refused if their quota were not in shadow",
)
REPEATS = Metric(
    "mutation_quota_repeats_total", "counter", "decisions", "on requests that were sent twice and are charged once"
)
DEAD_LETTERS = Metric(
    "mutation_quota_dead_letters_total", "counter", "records", "of the request topic that were no request"
)
LATENCY = Metric(
    "mutation_quota_decision_latency_seconds",
    "histogram",
    "s",
    "from the request's timestamp to that of its decision on its topic, by the brokers' clocks",
)
QUOTA_RECORDS = Metric(
    "mutation_quota_quota_records_total",
    "counter",
    "records",
    "ever written to the quota topic: the offset of its end; it rises with each change of a quota",
)
LAG = Metric(
    "mutation_quota_query_lag_records",
    "gauge",
    "records",
    "between the end of the query's topics and its last batch",
    _QUERY,
)
BATCHES = Metric(
    "mutation_quota_query_batches_total",
    "counter",
    "batches",
    "done since the checkpoint was begun, by `apply` since it was started",
    _QUERY,
)
STARTED = Metric(
    "mutation_quota_query_start_timestamp_seconds",
    "gauge",
    "s since the epoch",
    "when the job was started; `gateway`, `apply`, `observe` and `push` tell it, too",
    _QUERY,
)
LAST_BATCH = Metric(
    "mutation_quota_query_last_batch_timestamp_seconds",
    "gauge",
    "s since the epoch",
    "when the last batch ended, or the job was started",
    _QUERY,
)
UNDER_WAY = Metric(
    "mutation_quota_query_batch_under_way",
    "gauge",
    "batches",
    "1 while a batch with records is worked on, also the first one after a start",
    _QUERY,
)
BATCH_TIME = Metric(
    "mutation_quota_query_batch_seconds",
    "gauge",
    "s",
    "of the last batch, by Spark's phases; `triggerExecution` is all of it",
    (*_QUERY, "phase"),
)
TRIGGER = Metric(
    "mutation_quota_query_trigger_seconds",
    "gauge",
    "s",
    "from one batch to the next, by the settings; 0 for at once",
    _QUERY,
)
STATE_ROWS = Metric("mutation_quota_state_rows", "gauge", "rows", "of the query's state: one a bucket", _QUERY)
STATE_BYTES = Metric("mutation_quota_state_bytes", "gauge", "bytes", "of memory that the query's state takes", _QUERY)
APPLIED = Metric(
    "mutation_quota_applied_topics_total",
    "counter",
    "topics",
    "admitted, and by now `carried_out`, `found_done` by an applier before, or `failed`",
    ("outcome",),
)
REOPENED = Metric(
    "mutation_quota_applier_reopened_total",
    "counter",
    "times",
    "that the applier had to begin again where it was, as when a cluster did not answer",
)
OBSERVED_REQUESTS = Metric(
    "mutation_quota_observed_requests_total", "counter", "requests", "with a mutation, read from the request logs"
)
OBSERVED_MUTATIONS = Metric(
    "mutation_quota_observed_mutations_total", "counter", "mutations", "that these requests asked for"
)
OBSERVED_REFUSED = Metric(
    "mutation_quota_observed_refused_topics_total", "counter", "topics", "that the cluster itself refused by a quota"
)
OBSERVED_ASSUMED = Metric(
    "mutation_quota_observed_assumed_topics_total",
    "counter",
    "topics",
    "whose cost the logs do not tell, and is assumed to be 1",
)
OBSERVED_BROKEN = Metric(
    "mutation_quota_observed_broken_lines_total", "counter", "lines", "of a mutation that cannot be read"
)
OBSERVED_BEHIND = Metric(
    "mutation_quota_observed_behind_bytes", "gauge", "bytes", "written to the request logs and not read yet"
)
PUSH_DIFFERING = Metric(
    "mutation_quota_push_differing_quotas",
    "gauge",
    "quotas",
    "of the cluster that are not as the log has them: `changed`, `missing`, `not_removed`, or `only_there`",
    ("difference",),
)
PUSH_COMPARED = Metric(
    "mutation_quota_push_last_comparison_timestamp_seconds",
    "gauge",
    "s since the epoch",
    "when the cluster's quotas were last compared with the log",
)
GATEWAY_CONNECTIONS = Metric(
    "mutation_quota_gateway_connections", "gauge", "connections", "of clients, open now; each has one to a broker"
)
GATEWAY_ACCEPTED = Metric(
    "mutation_quota_gateway_accepted_connections_total", "counter", "connections", "of clients, accepted"
)
GATEWAY_CLOSED = Metric(
    "mutation_quota_gateway_closed_connections_total",
    "counter",
    "connections",
    "of clients, closed by the gateway itself, by reason",
    ("reason",),
)
GATEWAY_RELAYED = Metric(
    "mutation_quota_gateway_relayed_requests_total", "counter", "requests", "passed on to brokers as they came"
)
GATEWAY_BYTES = Metric(
    "mutation_quota_gateway_bytes_total", "counter", "bytes", "received from `clients` or `brokers`", ("sender",)
)
GATEWAY_TOPICS = Metric(
    "mutation_quota_gateway_topics_total",
    "counter",
    "topics",
    "of intercepted requests: `admitted` or `refused` by a decision, `failed` by the cluster's validation, `invalid` "
    "by a dead letter; without a decision `undecided`, or `went_on` where the gateway fails open",
    ("operation", "mode", "outcome"),
)
GATEWAY_DECISION = Metric(
    "mutation_quota_gateway_decision_seconds",
    "histogram",
    "s",
    "from the question to its decision, by the gateway's clock",
)
GATEWAY_AWAITED = Metric("mutation_quota_gateway_awaited_decisions", "gauge", "decisions", "awaited now")
GATEWAY_UNDECIDED = Metric(
    "mutation_quota_gateway_undecided_requests_total",
    "counter",
    "requests",
    "without a decision in time; what became of them is `gateway.when_silent`",
)
GATEWAY_LATE = Metric(
    "mutation_quota_gateway_late_decisions_total",
    "counter",
    "decisions",
    "that came after their time: charged, and not carried out unless the client tries again",
)
GATEWAY_MUTES = Metric("mutation_quota_gateway_mutes_total", "counter", "times", "that a client was muted (KIP-219)")
GATEWAY_MUTED = Metric(
    "mutation_quota_gateway_muted_seconds_total",
    "counter",
    "s",
    "that clients were told to wait, all together; its rate is about the number of clients that wait at once",
)
GATEWAY_FOREIGN = Metric(
    "mutation_quota_gateway_foreign_addresses_total",
    "counter",
    "addresses",
    "in brokers' answers that lead past the gateway; they are left out",
)
FAILURES = Metric(
    "mutation_quota_metrics_failures_total",
    "counter",
    "failures",
    "to hear answers or to look at queries, for the metrics; the job goes on",
)
