WITH now AS MATERIALIZED (
    SELECT windlass_now($4) AS at
), held AS MATERIALIZED (
    SELECT l.tenant_id, h.nth FROM tenant_lock l
    JOIN unnest($1::text[], $2::text[], $3::text[]::numeric[]) WITH ORDINALITY AS h(tenant_id, task_id, fence, nth)
        ON l.tenant_id = ANY (ARRAY[h.tenant_id]) AND l.task_id = h.task_id AND l.fence = h.fence
    CROSS JOIN now
    -- Not a comparison that an index of times could be walked for.
    WHERE (l.expires_at > now.at) IS TRUE
    ORDER BY h.tenant_id FOR UPDATE OF l
), woken AS (
    UPDATE change_mark SET n = n + 1
    WHERE port = 'locks' AND shard = pg_backend_pid() % 16 AND EXISTS (SELECT 1 FROM held)
)
DELETE FROM tenant_lock l USING held WHERE l.tenant_id = ANY (ARRAY[held.tenant_id])
RETURNING held.nth
