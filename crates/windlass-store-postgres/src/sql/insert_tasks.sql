INSERT INTO task_state_projection
    (task_id, tenant_id, plan_id, position, status, pause_requested, start_requested, owner_asked, control, owner,
     fence, ready_at, created_at, started_at, updated_at, ended_at, detail, checkpoint_version, version, seq,
     op_id, op_digest, op_at)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::boolean[], $7::boolean[], $8::boolean[],
    $9::text[], $10::text[], $11::text[]::numeric[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
    $15::timestamptz[], $16::timestamptz[], $17::text[], $18::bigint[], $19::bigint[], $20::bigint[],
    $21::text[], $22::bigint[], $23::timestamptz[]
)
