UPDATE async_tasks t
SET status = g.status, result = g.result, error = g.error, started_at = g.started_at, completed_at = g.completed_at,
    version = g.version, ready = g.ready, run_at = g.run_at, attempt = g.attempt, deliveries = g.deliveries, worker = g.worker,
    lease_until = g.lease_until, cancel = g.cancel, asked = g.asked
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::bigint[], $8::boolean[],
    $9::timestamptz[], $10::integer[], $11::integer[], $12::text[], $13::timestamptz[], $14::text[], $15::text[]
) AS g(
    task_id, status, result, error, started_at, completed_at, version, ready, run_at, attempt, deliveries, worker, lease_until,
    cancel, asked
)
WHERE t.task_id = ANY (ARRAY[g.task_id])
