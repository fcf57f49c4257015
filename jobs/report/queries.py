"""What a report asks DuckDB of the tables, in the order in which it does."""

TENANT_OF = """
CREATE TEMP MACRO tenant_of(user_tag, client_tag, more_tags) AS
{'user': user_tag, 'client': client_tag, 'more': coalesce(more_tags, MAP {})}
"""
"""Who shares a bucket."""

DECIDED = """
CREATE TEMP TABLE decided AS
WITH chosen AS (
  SELECT *, CASE WHEN validate_only THEN [] ELSE topics[coalesce(repeats.topics, 0) + 1:] END AS charged
  FROM decisions
  WHERE date >= $first_date AND date <= $last_date AND timestamp >= $first AND timestamp <= $last
    AND ($user::VARCHAR IS NULL OR "user" = $user)
)
SELECT tenant_of(user_tag, client_tag, more_tags) AS tenant,
       epoch_ms(timestamp) AS moment,
       coalesce(list_sum([t.partitions for t in charged if t.error_code = 0]), 0)::BIGINT AS admitted,
       coalesce(list_sum([t.partitions for t in charged if t.error_code = 89]), 0)::BIGINT AS refused,
       tokens,
       tokens / burst AS share,
       greatest(epoch_ms(decided_at) - epoch_ms(timestamp), 0) AS latency
FROM chosen
"""
"""What became of each request.

Neither what only asked if it could be done counts as a mutation, nor what was sent twice and charged once.
"""

WAITS = """
CREATE TEMP TABLE waits AS
SELECT tenant_of(user_tag, client_tag, more_tags) AS tenant, decision_id,
       epoch_ms(timestamp) AS moment, epoch_ms(retry_at) AS wait_until
FROM decisions
WHERE throttle_time_ms > 0 AND retry_at > $first AND timestamp <= $last
  AND date >= $first_wait_date AND date <= $last_date
  AND ($user::VARCHAR IS NULL OR "user" = $user)
"""
"""What tenants were told to wait, also before the time that is told of, if they still waited then."""

PLACES = """
CREATE TEMP TABLE places AS
WITH asked AS (
  SELECT tenant, sum(admitted + refused) AS mutations, count(*) AS requests FROM decided GROUP BY tenant
),
known AS (SELECT tenant FROM asked UNION SELECT tenant FROM waits)
SELECT tenant, least($tenants, row_number() OVER (
         ORDER BY coalesce(mutations, 0) DESC, coalesce(requests, 0) DESC,
                  tenant.user, tenant.client, tenant.more::VARCHAR
       ) - 1) AS place
FROM known LEFT JOIN asked USING (tenant)
"""
"""The place of each tenant, the busiest being 0 and all others the same."""

PLACED = """
CREATE TEMP VIEW placed AS
SELECT decided.*, place, (moment - getvariable('start')) // getvariable('width') AS bin
FROM decided JOIN places USING (tenant)
"""
"""Decisions with the place of their tenant and their interval."""

NAMES = """
SELECT to_json(map_from_entries(list_filter(
         map_entries(map_concat(MAP {'user': tenant.user, 'client-id': tenant.client}, tenant.more)),
         lambda tag: tag.value <> ''
       )))::VARCHAR
FROM places WHERE place < $tenants ORDER BY place
"""
"""Of the busiest tenants, as `docs/tables.md` has them."""

OTHERS = """
SELECT count(*) FROM places WHERE place = $tenants
"""

SUMS = """
SELECT place, bin, count(*), sum(admitted), sum(refused), min(tokens), min(share),
       quantile_disc(latency, 0.5), quantile_disc(latency, 0.99)
FROM placed GROUP BY GROUPING SETS ((place, bin), (bin))
"""
"""By place and interval; where the place is null, of all."""

PEAKS = """
SELECT place, bin, max(mutations)
FROM (
  SELECT place, bin, sum(admitted) AS mutations
  FROM placed GROUP BY GROUPING SETS ((place, bin, moment // 1000), (bin, moment // 1000))
)
GROUP BY place, bin
"""

THROTTLED = """
WITH told AS (
  SELECT place, greatest(moment, $since) AS moment, wait_until, max(wait_until) OVER (
           PARTITION BY tenant ORDER BY moment, decision_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS known_until
  FROM waits JOIN places USING (tenant)
),
spans AS (
  SELECT place, greatest(moment, coalesce(known_until, moment)) - $start AS since,
         least(wait_until, $end) - $start AS until
  FROM told
),
pieces AS (
  SELECT place, since, until, unnest(range(since // $width, (until - 1) // $width + 1)) AS bin
  FROM spans WHERE since < until
)
SELECT place, bin, sum(least(until, (bin + 1) * $width) - greatest(since, bin * $width))
FROM pieces GROUP BY GROUPING SETS ((place, bin), (bin))
"""
"""Told twice to wait until the same moment, a tenant waits once; a wait is cut into the intervals that it lies in."""

LETTERS = """
CREATE TEMP TABLE letters AS
SELECT source.topic AS topic, regexp_replace(split_part(error, ':', 1), '\\[\\d+\\]', '[]', 'g')[:80] AS field,
       error[:300] AS error, epoch_ms(timestamp) AS moment
FROM dead_letters
WHERE date >= $first_date AND date <= $last_date AND timestamp >= $first AND timestamp <= $last
"""
"""Dead letters by the field that their errors begin with, whichever of several topics it belongs to."""

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
"""Of the commonest reasons, and of all others together."""

CHANGES = """
SELECT epoch_ms(effective_at) AS "at", kind, timestamp >= effective_at AS at_once, entity,
       controller_mutation_rate AS rate, controller_mutation_burst AS burst, max_debt_ms, shadow,
       bucket, callback, altered_by, comment
FROM quota_changes
WHERE effective_at >= $first AND effective_at <= $last AND kind <> 'cluster'
  AND ($user::VARCHAR IS NULL OR "user" IS NULL OR "user" IN ($user, '<default>'))
ORDER BY effective_at DESC, source.offset DESC
"""
"""All that quotas depend on, but partitions of the cluster; the latest first."""
