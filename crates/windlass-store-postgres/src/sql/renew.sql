-- Locked in one order before they are compared; the update finds what was locked.
WITH now AS MATERIALIZED (
    SELECT windlass_now($5) AS at
), held AS MATERIALIZED (
    SELECT l.tenant_id, h.nth FROM tenant_lock l
    JOIN unnest($1::text[], $2::text[], $3::text[]::numeric[]) WITH ORDINALITY AS h(tenant_id, task_id, fence, nth)
        ON l.tenant_id = ANY (ARRAY[h.tenant_id]) AND l.task_id = h.task_id AND l.fence = h.fence
    CROSS JOIN now
    -- Not a comparison that an index of times could be walked for.
    WHERE (l.expires_at > now.at) IS TRUE
    ORDER BY h.tenant_id FOR UPDATE OF l
)
UPDATE tenant_lock l SET expires_at = windlass_later(now.at, $4)
FROM held, now
WHERE l.tenant_id = ANY (ARRAY[held.tenant_id])
RETURNING held.nth, l.expires_at
