INSERT INTO task_checkpoint
    (task_id, version, last_completed_stage_index, saved_at, executor_instance, fence, checkpoint)
SELECT * FROM unnest(
    $1::text[], $2::bigint[], $3::integer[], $4::timestamptz[], $5::text[], $6::text[]::numeric[], $7::text[]
)
ON CONFLICT (task_id) DO UPDATE SET
    version = excluded.version, last_completed_stage_index = excluded.last_completed_stage_index,
    saved_at = excluded.saved_at, executor_instance = excluded.executor_instance, fence = excluded.fence,
    checkpoint = excluded.checkpoint
