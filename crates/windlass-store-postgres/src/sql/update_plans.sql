UPDATE plan_state_projection p
SET name = g.name, status = g.status, tasks = g.tasks, max_concurrency = g.max_concurrency,
    on_failure = g.on_failure, on_conflict = g.on_conflict, recovery = g.recovery, conductor = g.conductor,
    cancelled = g.cancelled, created_at = g.created_at, started_at = g.started_at, updated_at = g.updated_at,
    ended_at = g.ended_at, version = g.version, seq = g.seq
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::boolean[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
    $15::bigint[], $16::bigint[]
) AS g(
    plan_id, name, status, tasks, max_concurrency, on_failure, on_conflict, recovery, conductor, cancelled,
    created_at, started_at, updated_at, ended_at, version, seq
)
WHERE p.plan_id = ANY (ARRAY[g.plan_id])
