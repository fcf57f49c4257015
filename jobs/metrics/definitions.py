"""The definitions of the metrics, in the order of the reference page, with units, labels and meanings."""

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
    "mutations charged to the tenant's bucket per second, over the last S * W seconds, by Kafka's samples",
    _TENANT,
)
TOKENS = Metric(
    "kafka_server_controllermutation_tokens",
    "gauge",
    "mutations",
    "K, the tokens in the tenant's bucket now; a value below 0 is debt",
    _TENANT,
)
THROTTLE_TIME = Metric(
    "kafka_server_controllermutation_throttle_time",
    "gauge",
    "ms",
    "mean throttle time of the bucket in the last minute; 0 if no request was throttled",
    _TENANT,
)
TENANT_QUOTA = Metric("mutation_quota_tenant_quota", "gauge", "mutations/s", "Q at the tenant's last decision", _TENANT)
TENANT_BURST = Metric("mutation_quota_tenant_burst", "gauge", "mutations", "B at the tenant's last decision", _TENANT)
TENANT_TOPICS = Metric(
    "mutation_quota_tenant_topics_total",
    "counter",
    "topics",
    "topics of the tenant's effective mutations, `admitted` or `refused`",
    (*_TENANT, "outcome"),
)
TENANTS_NEAR_LIMIT = Metric(
    "mutation_quota_tenants_near_limit",
    "gauge",
    "tenants",
    "tenants that have less than a fifth of their burst now, including those without their own series",
)
TENANTS_HIDDEN = Metric(
    "mutation_quota_tenants_hidden",
    "gauge",
    "tenants",
    "tenants active in the last hour without their own series: only the `metrics.max_tenants` busiest have them",
)
TENANTS_FORGOTTEN = Metric(
    "mutation_quota_tenants_forgotten_total",
    "counter",
    "tenants",
    "active tenants that were dropped, because there were twice as many as `metrics.max_tenants`",
)
DECISIONS = Metric(
    "mutation_quota_decisions_total",
    "counter",
    "decisions",
    "decisions that admitted all topics (`admitted`), some (`partial`), or none (`rejected`)",
    ("outcome",),
)
TOPICS = Metric(
    "mutation_quota_topics_total",
    "counter",
    "topics",
    "topics of effective mutations, `admitted` or `refused`",
    ("outcome",),
)
MUTATIONS = Metric(
    "mutation_quota_mutations_total",
    "counter",
    "mutations",
    "effective mutations (partitions), `admitted` or `refused`",
    ("outcome",),
)
SHADOW_REFUSED = Metric(
    "mutation_quota_shadow_refused_topics_total",
    "counter",
    "topics",
    "topics admitted only because their quota is in shadow",
)
REPEATS = Metric(
    "mutation_quota_repeats_total", "counter", "decisions", "decisions on repeated requests, which are charged once"
)
DEAD_LETTERS = Metric("mutation_quota_dead_letters_total", "counter", "records", "invalid records of the request topic")
LATENCY = Metric(
    "mutation_quota_decision_latency_seconds",
    "histogram",
    "s",
    "time from the request's timestamp to its decision's timestamp, by the brokers' clocks",
)
QUOTA_RECORDS = Metric(
    "mutation_quota_quota_records_total",
    "counter",
    "records",
    "log end offset of the quota topic, which rises with each quota change",
)
LAG = Metric(
    "mutation_quota_query_lag_records",
    "gauge",
    "records",
    "records between the query's last batch and the log end offsets of its topics",
    _QUERY,
)
BATCHES = Metric(
    "mutation_quota_query_batches_total",
    "counter",
    "batches",
    "batches finished since the checkpoint was created (`applier`: since its start)",
    _QUERY,
)
STARTED = Metric(
    "mutation_quota_query_start_timestamp_seconds",
    "gauge",
    "s since the epoch",
    "start time of the job; also reported by `gateway`, `applier`, `observe` and `push`",
    _QUERY,
)
LAST_BATCH = Metric(
    "mutation_quota_query_last_batch_timestamp_seconds",
    "gauge",
    "s since the epoch",
    "time at which the last batch ended, or at first the start time of the job",
    _QUERY,
)
UNDER_WAY = Metric(
    "mutation_quota_query_batch_under_way",
    "gauge",
    "batches",
    "1 while a batch with records is processed, including the first one after a start",
    _QUERY,
)
BATCH_TIME = Metric(
    "mutation_quota_query_batch_seconds",
    "gauge",
    "s",
    "duration of the last batch, for each of Spark's phases; `triggerExecution` is the total",
    (*_QUERY, "phase"),
)
TRIGGER = Metric(
    "mutation_quota_query_trigger_seconds",
    "gauge",
    "s",
    "configured time between batches; 0 if the next batch starts immediately",
    _QUERY,
)
STATE_ROWS = Metric("mutation_quota_state_rows", "gauge", "rows", "rows of the query's state, one per bucket", _QUERY)
STATE_BYTES = Metric("mutation_quota_state_bytes", "gauge", "bytes", "memory used by the query's state", _QUERY)
UPKEEP_FAILURES = Metric(
    "mutation_quota_upkeep_failures_total",
    "counter",
    "failures",
    "parts of the upkeep of a Delta table (the daily part, compaction) that failed or took too long; they are tried "
    "again an hour later",
    ("table",),
)
APPLIED = Metric(
    "mutation_quota_applied_topics_total",
    "counter",
    "topics",
    "admitted topics that were `carried_out`, `found_done` (by an earlier applier), or `failed`",
    ("outcome",),
)
REOPENED = Metric(
    "mutation_quota_applier_reopened_total",
    "counter",
    "times",
    "restarts of the applier from its position, for example after a cluster did not respond",
)
OBSERVED_REQUESTS = Metric(
    "mutation_quota_observed_requests_total",
    "counter",
    "requests",
    "requests with a mutation that were read from the request logs",
)
OBSERVED_MUTATIONS = Metric(
    "mutation_quota_observed_mutations_total",
    "counter",
    "mutations",
    "mutations in requests that were read from the request logs",
)
OBSERVED_REFUSED = Metric(
    "mutation_quota_observed_refused_topics_total",
    "counter",
    "topics",
    "topics that the cluster itself refused because of a quota",
)
OBSERVED_ASSUMED = Metric(
    "mutation_quota_observed_assumed_topics_total",
    "counter",
    "topics",
    "topics whose cost is not in the logs, and is assumed to be 1",
)
OBSERVED_INVALID = Metric(
    "mutation_quota_observed_invalid_lines_total", "counter", "lines", "lines with a mutation that cannot be parsed"
)
OBSERVED_BEHIND = Metric(
    "mutation_quota_observed_behind_bytes", "gauge", "bytes", "bytes of the request logs that are not read yet"
)
PUSH_DIFFERING = Metric(
    "mutation_quota_push_differing_quotas",
    "gauge",
    "quotas",
    "quotas of the cluster that differ from the quota log: `changed`, `missing`, `not_removed`, or `only_there`",
    ("difference",),
)
PUSH_COMPARED = Metric(
    "mutation_quota_push_last_comparison_timestamp_seconds",
    "gauge",
    "s since the epoch",
    "time at which the cluster's quotas were last compared with the quota log",
)
GATEWAY_CONNECTIONS = Metric(
    "mutation_quota_gateway_connections",
    "gauge",
    "connections",
    "open connections of clients; each has one to a broker",
)
GATEWAY_ACCEPTED = Metric(
    "mutation_quota_gateway_accepted_connections_total",
    "counter",
    "connections",
    "connections of clients that were accepted",
)
GATEWAY_CLOSED = Metric(
    "mutation_quota_gateway_closed_connections_total",
    "counter",
    "connections",
    "connections of clients that the gateway itself closed, by reason",
    ("reason",),
)
GATEWAY_RELAYED = Metric(
    "mutation_quota_gateway_relayed_requests_total", "counter", "requests", "requests forwarded to brokers unchanged"
)
GATEWAY_BYTES = Metric(
    "mutation_quota_gateway_bytes_total", "counter", "bytes", "bytes received from `clients` or `brokers`", ("sender",)
)
GATEWAY_TOPICS = Metric(
    "mutation_quota_gateway_topics_total",
    "counter",
    "topics",
    "topics of intercepted requests: `admitted` or `refused` by a decision, `failed` by the cluster's validation, "
    "`invalid` by a dead letter; without a decision `undecided`, or `proceeded` if the gateway fails open",
    ("operation", "mode", "outcome"),
)
GATEWAY_DECISION = Metric(
    "mutation_quota_gateway_decision_seconds",
    "histogram",
    "s",
    "time from the request for a decision to the decision, by the gateway's clock",
)
GATEWAY_AWAITED = Metric(
    "mutation_quota_gateway_awaited_decisions", "gauge", "decisions", "decisions that are awaited now"
)
GATEWAY_UNDECIDED = Metric(
    "mutation_quota_gateway_undecided_requests_total",
    "counter",
    "requests",
    "requests without a decision in time; `gateway.when_silent` determines their outcome",
)
GATEWAY_LATE = Metric(
    "mutation_quota_gateway_late_decisions_total",
    "counter",
    "decisions",
    "decisions that arrived too late: charged, and not carried out unless the client retries",
)
GATEWAY_MUTES = Metric(
    "mutation_quota_gateway_mutes_total", "counter", "times", "times that a client was muted (KIP-219)"
)
GATEWAY_MUTED = Metric(
    "mutation_quota_gateway_muted_seconds_total",
    "counter",
    "s",
    "sum of all throttle times; its rate is about the number of clients that are muted at the same time",
)
GATEWAY_FOREIGN = Metric(
    "mutation_quota_gateway_foreign_addresses_total",
    "counter",
    "addresses",
    "addresses in brokers' responses that would bypass the gateway, and are removed",
)
FAILURES = Metric(
    "mutation_quota_metrics_failures_total",
    "counter",
    "failures",
    "failures to read decisions or query progress for the metrics; the job continues",
)
