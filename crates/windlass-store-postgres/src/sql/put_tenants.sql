-- A tenant that is there was locked before it was judged. One that is not may be made by two writers at once: then the
-- names of the later one hold unless a task has started meanwhile.
INSERT INTO tenant_state AS s (tenant_id, fence, latest_task_id, started_task_id)
SELECT g.tenant_id, g.fence, g.latest, g.started
FROM unnest($1::text[], $2::text[]::numeric[], $3::text[], $4::text[]) AS g(tenant_id, fence, latest, started)
ORDER BY g.tenant_id
ON CONFLICT (tenant_id) DO UPDATE SET
    fence = greatest(s.fence, excluded.fence),
    latest_task_id = CASE
        WHEN excluded.started_task_id IS NULL AND s.started_task_id IS NOT NULL THEN s.latest_task_id
        ELSE excluded.latest_task_id
    END,
    started_task_id = coalesce(excluded.started_task_id, s.started_task_id)
