-- Six questions of a cluster owner, as queries on the views of docs/reference/tables.md. They run in Spark and DuckDB.

-- 1. Who was rejected the most?
SELECT m.tenant,
       count(DISTINCT m.decision_id) AS requests,
       count(*) AS topics,
       sum(m.partitions) AS mutations
FROM mutations m
WHERE m.error_code = 89
GROUP BY m.tenant
ORDER BY mutations DESC, m.tenant
LIMIT 10;

-- 2. How many mutations were admitted and rejected in each hour?
SELECT date_trunc('hour', m.timestamp) AS hour,
       sum(CASE WHEN m.error_code = 0 THEN m.partitions ELSE 0 END) AS admitted,
       sum(CASE WHEN m.error_code = 89 THEN m.partitions ELSE 0 END) AS rejected
FROM mutations m
GROUP BY date_trunc('hour', m.timestamp)
ORDER BY hour;

-- 3. How long was each tenant throttled? (Overlapping throttle times count once.)
WITH throttled AS (
  SELECT d.tenant,
         unix_millis(d.timestamp) AS throttled_at,
         unix_millis(d.retry_at) AS wait_until,
         max(unix_millis(d.retry_at)) OVER (
           PARTITION BY d.tenant ORDER BY d.timestamp, d.decision_id
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ) AS known_until
  FROM decisions d
  WHERE d.throttle_time_ms > 0
)
SELECT t.tenant,
       count(*) AS times,
       sum(greatest(0, t.wait_until - greatest(t.throttled_at, coalesce(t.known_until, t.throttled_at)))) AS throttled_ms
FROM throttled t
GROUP BY t.tenant
ORDER BY throttled_ms DESC, t.tenant;

-- 4. Which quota was in force for a user and client-id at a given time, and who had set it?
-- (The most specific of the eight levels. A change that was cancelled before its moment does not count; one that was
-- cancelled too late does.)
WITH asked AS (
  SELECT 'alice' AS user, 'app' AS client_id, TIMESTAMP '2026-11-21 14:00:00' AS moment
),
changes AS (
  SELECT c.*,
         row_number() OVER (
           PARTITION BY c.entity ORDER BY c.effective_at DESC, c.kind DESC, c.source.offset DESC
         ) AS newest
  FROM quota_changes c CROSS JOIN asked a
  WHERE c.effective_at <= a.moment
    AND (c.user IS NULL OR c.user IN (a.user, '<default>'))
    AND (c.client_id IS NULL OR c.client_id IN (a.client_id, '<default>'))
    AND (c.kind = 'quota' OR (c.kind = 'cancel' AND c.timestamp >= c.effective_at))
    AND NOT EXISTS (
      SELECT 1 FROM quota_changes b
      WHERE b.kind = 'cancel' AND b.entity = c.entity AND b.effective_at = c.effective_at
        AND b.timestamp < b.effective_at AND b.source.offset > c.source.offset
    )
)
SELECT c.entity, c.controller_mutation_rate, c.controller_mutation_burst, c.effective_at, c.altered_by, c.comment
FROM changes c CROSS JOIN asked a
WHERE c.newest = 1 AND c.controller_mutation_rate IS NOT NULL
ORDER BY CASE WHEN c.user = a.user THEN 1 WHEN c.user IS NOT NULL THEN 2 ELSE 3 END,
         CASE WHEN c.client_id = a.client_id THEN 1 WHEN c.client_id IS NOT NULL THEN 2 ELSE 3 END
LIMIT 1;

-- 5. How near is each tenant to its limit? (K and its share of the burst at the last request, and the lowest share.)
WITH used AS (
  SELECT d.tenant, d.timestamp, d.quota, d.burst, d.tokens,
         min(d.tokens / d.burst) OVER (PARTITION BY d.tenant) AS lowest_share,
         row_number() OVER (
           PARTITION BY d.tenant ORDER BY d.timestamp DESC, d.source.partition DESC, d.source.offset DESC
         ) AS newest
  FROM decisions d
  WHERE d.tokens IS NOT NULL
)
SELECT u.tenant, u.timestamp, u.quota, u.tokens, u.tokens / u.burst AS share, u.lowest_share
FROM used u
WHERE u.newest = 1
ORDER BY share, u.tenant;

-- 6. What did each tenant do in each minute? (To keep it for longer than audit.keep_days, store the result in a table of
-- your own.)
WITH mutated AS (
  SELECT date_trunc('minute', m.timestamp) AS minute, m.tenant,
         sum(CASE WHEN m.error_code = 0 THEN m.partitions ELSE 0 END) AS admitted,
         sum(CASE WHEN m.error_code = 89 THEN m.partitions ELSE 0 END) AS rejected
  FROM mutations m
  GROUP BY date_trunc('minute', m.timestamp), m.tenant
),
answered AS (
  SELECT date_trunc('minute', d.timestamp) AS minute, d.tenant,
         count(*) AS decisions,
         min(d.tokens) AS lowest_tokens,
         min(d.tokens / d.burst) AS lowest_share,
         max(CASE WHEN d.controller_throttle_ms > d.request_throttle_ms THEN d.controller_throttle_ms ELSE 0 END)
           AS longest_throttle_ms
  FROM decisions d
  GROUP BY date_trunc('minute', d.timestamp), d.tenant
)
SELECT a.minute, a.tenant, a.decisions, coalesce(m.admitted, 0) AS admitted, coalesce(m.rejected, 0) AS rejected,
       a.lowest_tokens, a.lowest_share, a.longest_throttle_ms
FROM answered a LEFT JOIN mutated m ON m.minute = a.minute AND m.tenant = a.tenant
ORDER BY a.minute, a.tenant;
