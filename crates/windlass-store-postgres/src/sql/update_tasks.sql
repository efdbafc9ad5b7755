UPDATE task_state_projection t
SET status = g.status, pause_requested = g.pause_requested, start_requested = g.start_requested,
    owner_asked = g.owner_asked, control = g.control, owner = g.owner, fence = g.fence, ready_at = g.ready_at,
    started_at = g.started_at, updated_at = g.updated_at, ended_at = g.ended_at, detail = g.detail,
    checkpoint_version = g.checkpoint_version, version = g.version, seq = g.seq,
    op_id = g.op_id, op_digest = g.op_digest, op_at = g.op_at
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::boolean[], $7::boolean[], $8::boolean[],
    $9::text[], $10::text[], $11::text[]::numeric[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
    $15::timestamptz[], $16::timestamptz[], $17::text[], $18::bigint[], $19::bigint[], $20::bigint[],
    $21::text[], $22::bigint[], $23::timestamptz[]
) AS g(
    task_id, tenant_id, plan_id, position, status, pause_requested, start_requested, owner_asked, control, owner,
    fence, ready_at, created_at, started_at, updated_at, ended_at, detail, checkpoint_version, version, seq,
    op_id, op_digest, op_at
)
WHERE t.task_id = ANY (ARRAY[g.task_id])
