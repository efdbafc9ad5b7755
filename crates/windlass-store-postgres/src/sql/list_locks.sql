-- $1 after, $2 limit, $3 ahead. Locks that run and freezes, merged by tenant.
WITH now AS MATERIALIZED (
    SELECT windlass_now($3) AS at
), busy AS (
    (SELECT l.tenant_id FROM tenant_lock l, now
     WHERE l.expires_at > now.at AND l.tenant_id > $1 ORDER BY l.tenant_id LIMIT $2)
    UNION
    (SELECT f.tenant_id FROM tenant_freeze f WHERE f.tenant_id > $1 ORDER BY f.tenant_id LIMIT $2)
)
SELECT busy.tenant_id, l.plan_id, l.task_id, l.fence::text, l.acquired_at, l.expires_at, f.by, f.reason, f.frozen_at
FROM busy CROSS JOIN now
LEFT JOIN tenant_lock l ON l.tenant_id = busy.tenant_id AND l.expires_at > now.at
LEFT JOIN tenant_freeze f ON f.tenant_id = busy.tenant_id
ORDER BY busy.tenant_id LIMIT $2
