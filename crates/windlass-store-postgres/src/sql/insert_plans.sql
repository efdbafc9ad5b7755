INSERT INTO plan_state_projection
    (plan_id, name, status, tasks, max_concurrency, on_failure, on_conflict, recovery, conductor, cancelled,
     created_at, started_at, updated_at, ended_at, version, seq)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::boolean[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
    $15::bigint[], $16::bigint[]
)
