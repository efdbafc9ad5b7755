-- $1 statuses, $2 to $6 where the last page ended, $7 queue, $8 tenant, $9 how many are looked at. Three walks, merged: what may
-- be claimed and what waits for its time, each along its index, and what runs, which is as much as workers hold.
WITH place AS (
    SELECT $2::text COLLATE "C" AS queue, $3::text COLLATE "C" AS tenant_id, (-$4::smallint) AS rank, $5::timestamptz AS run_at, $6::bigint AS seq
)
SELECT l.task_id, l.queue, l.tenant_id, l.priority, l.run_at, l.seq, ($8::text IS NULL OR l.tenant_id = $8) AS fits
FROM place p CROSS JOIN LATERAL (
    (SELECT t.task_id, t.queue, t.tenant_id, t.priority, t.run_at, t.seq FROM async_tasks t
     WHERE 'PENDING' = ANY ($1) AND t.ready AND t.status = 'PENDING' AND ($7::text IS NULL OR t.queue = $7)
       AND (t.queue, t.tenant_id, -t.priority, t.run_at, t.seq) > (p.queue, p.tenant_id, p.rank, p.run_at, p.seq)
     ORDER BY t.queue, t.tenant_id, -t.priority, t.run_at, t.seq LIMIT $9)
    UNION ALL
    (SELECT t.task_id, t.queue, t.tenant_id, t.priority, t.run_at, t.seq FROM async_tasks t
     WHERE 'PENDING' = ANY ($1) AND NOT t.ready AND t.status = 'PENDING' AND ($7::text IS NULL OR t.queue = $7)
       AND (t.queue, t.tenant_id, -t.priority, t.run_at, t.seq) > (p.queue, p.tenant_id, p.rank, p.run_at, p.seq)
     ORDER BY t.queue, t.tenant_id, -t.priority, t.run_at, t.seq LIMIT $9)
    UNION ALL
    (SELECT t.task_id, t.queue, t.tenant_id, t.priority, t.run_at, t.seq FROM async_tasks t
     WHERE 'RUNNING' = ANY ($1) AND t.status = 'RUNNING' AND ($7::text IS NULL OR t.queue = $7)
       AND (t.queue, t.tenant_id, -t.priority, t.run_at, t.seq) > (p.queue, p.tenant_id, p.rank, p.run_at, p.seq)
     ORDER BY t.queue, t.tenant_id, -t.priority, t.run_at, t.seq LIMIT $9)
) l
ORDER BY l.queue, l.tenant_id, -l.priority, l.run_at, l.seq LIMIT $9
