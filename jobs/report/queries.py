"""The DuckDB queries of a report, in the order in which they run."""

EFFECTIVE = "NOT validate_only AND (repeats IS NULL OR {number} >= repeats.topics)"
"""Whether a `topic` of a row of `decisions` counts, as in `Decision.free_topics`: the request was not validate-only,
and no earlier decision on it has charged the topic. `{number}` is its number in the row's `topics`, from 0.
"""


def sum_mutations(condition: str) -> str:
    """Return the expression for the mutations of a decision's effective topics for which a condition holds."""
    effective = EFFECTIVE.format(number="number - 1")  # DuckDB's lists begin at 1
    mutations = f"CASE WHEN {effective} AND {condition} THEN topic.partitions ELSE 0 END"
    return f"coalesce(list_sum(list_transform(topics, lambda topic, number: {mutations})), 0)::BIGINT"


TENANT_OF = """
CREATE TEMP MACRO tenant_of(user_tag, client_tag, more_tags) AS
{'user': user_tag, 'client': client_tag, 'more': coalesce(more_tags, MAP {})}
"""
"""The tenant: the tags of a bucket."""

DECIDED = f"""
CREATE TEMP TABLE decided AS
SELECT tenant_of(user_tag, client_tag, more_tags) AS tenant,
       epoch_ms(timestamp) AS moment,
       {sum_mutations("topic.error_code = 0")} AS admitted,
       {sum_mutations("topic.error_code <> 0")} AS rejected,
       tokens,
       tokens / burst AS share,
       greatest(epoch_ms(decided_at) - epoch_ms(timestamp), 0) AS latency
FROM decisions
WHERE date >= $first_date AND date <= $last_date AND timestamp >= $first AND timestamp <= $last
  AND ($user::VARCHAR IS NULL OR "user" = $user)
"""  # noqa: S608 the expressions are constants
"""The decisions in the report's scope, with their effective mutations."""

WAITS = """
CREATE TEMP TABLE waits AS
SELECT tenant_of(user_tag, client_tag, more_tags) AS tenant, decision_id,
       epoch_ms(timestamp) AS moment, epoch_ms(retry_at) AS wait_until
FROM decisions
WHERE throttle_time_ms > 0 AND retry_at > $first AND timestamp <= $last
  AND date >= $first_wait_date AND date <= $last_date
  AND ($user::VARCHAR IS NULL OR "user" = $user)
"""
"""The throttle times that overlap the report's scope."""

RANKS = """
CREATE TEMP TABLE ranks AS
WITH requested AS (
  SELECT tenant, sum(admitted + rejected) AS mutations, count(*) AS requests FROM decided GROUP BY tenant
),
known AS (SELECT tenant FROM requested UNION SELECT tenant FROM waits)
SELECT tenant, least($tenants, row_number() OVER (
         ORDER BY coalesce(mutations, 0) DESC, coalesce(requests, 0) DESC,
                  tenant.user, tenant.client, tenant.more::VARCHAR
       ) - 1) AS rank
FROM known LEFT JOIN requested USING (tenant)
"""
"""The rank of each tenant: 0 is the busiest; all tenants after the busiest `$tenants` share one rank."""

RANKED = """
CREATE TEMP VIEW ranked AS
SELECT decided.*, rank, (moment - getvariable('start')) // getvariable('width') AS bin
FROM decided JOIN ranks USING (tenant)
"""
"""Decisions with the rank of their tenant and the number of their interval."""

NAMES = """
SELECT to_json(map_from_entries(list_filter(
         map_entries(map_concat(MAP {'user': tenant.user, 'client-id': tenant.client}, tenant.more)),
         lambda tag: tag.value <> ''
       )))::VARCHAR
FROM ranks WHERE rank < $tenants ORDER BY rank
"""
"""The names of the busiest tenants, in the form of `docs/reference/tables.md`."""

OTHERS = """
SELECT count(*) FROM ranks WHERE rank = $tenants
"""

SUMS = """
SELECT rank, bin, count(*), sum(admitted), sum(rejected), min(tokens), min(share),
       quantile_disc(latency, 0.5), quantile_disc(latency, 0.99)
FROM ranked GROUP BY GROUPING SETS ((rank, bin), (bin))
"""
"""Sums by rank and interval; those of all tenants have a null rank."""

PEAKS = """
SELECT rank, bin, max(mutations)
FROM (
  SELECT rank, bin, sum(admitted) AS mutations
  FROM ranked GROUP BY GROUPING SETS ((rank, bin, moment // 1000), (bin, moment // 1000))
)
GROUP BY rank, bin
"""

THROTTLED = """
WITH throttles AS (
  SELECT rank, greatest(moment, $since) AS moment, wait_until, max(wait_until) OVER (
           PARTITION BY tenant ORDER BY moment, decision_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS known_until
  FROM waits JOIN ranks USING (tenant)
),
spans AS (
  SELECT rank, greatest(moment, coalesce(known_until, moment)) - $start AS since,
         least(wait_until, $end) - $start AS until
  FROM throttles
),
pieces AS (
  SELECT rank, since, until, unnest(range(since // $width, (until - 1) // $width + 1)) AS bin
  FROM spans WHERE since < until
)
SELECT rank, bin, sum(least(until, (bin + 1) * $width) - greatest(since, bin * $width))
FROM pieces GROUP BY GROUPING SETS ((rank, bin), (bin))
"""
"""Throttle times cut at the ends of intervals. Where those of one tenant overlap, the overlap counts once."""

LETTERS = """
CREATE TEMP TABLE letters AS
SELECT source.topic AS topic, regexp_replace(split_part(error, ':', 1), '\\[\\d+\\]', '[]', 'g')[:80] AS field,
       error[:300] AS error, epoch_ms(timestamp) AS moment
FROM dead_letters
WHERE date >= $first_date AND date <= $last_date AND timestamp >= $first AND timestamp <= $last
"""
"""Dead letters with the field at the beginning of their errors, without indexes of list elements."""

LETTER_COUNTS = """
WITH commonest AS (
  SELECT topic, field, max(error) AS example
  FROM letters GROUP BY topic, field ORDER BY count(*) DESC, topic, field LIMIT $reasons
)
SELECT coalesce(commonest.topic, ''), coalesce(commonest.field, 'other reasons'), coalesce(example, ''),
       (moment - $start) // $width AS bin, count(*)
FROM letters LEFT JOIN commonest USING (topic, field) GROUP BY ALL
ORDER BY 1 DESC, 2
"""
"""The counts of the most common fields, and of all others together."""
