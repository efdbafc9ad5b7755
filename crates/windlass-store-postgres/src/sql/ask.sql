-- $1 ahead; then one array each. What is asked of tasks of which nothing is asked yet. One whose owner is writing it just
-- now is passed over and not in the answer: whoever waited for it would keep the owners of the others waiting. One that
-- was left alone is there without a version.
WITH now AS MATERIALIZED (
    SELECT windlass_now($1) AS at
), free AS MATERIALIZED (
    SELECT t.task_id FROM task_state_projection t WHERE t.task_id = ANY ($2) ORDER BY t.task_id FOR UPDATE SKIP LOCKED
), asked AS (
    UPDATE task_state_projection t
    SET control = g.control, pause_requested = g.pause, owner_asked = true, version = t.version + 1, seq = t.seq + 1
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[]) WITH ORDINALITY
        AS g(task_id, may_stand, op_id, control, pause, step)
    WHERE t.task_id = ANY (ARRAY[g.task_id]) AND g.task_id IN (SELECT task_id FROM free) AND t.control IS NULL AND t.seq < 200
      AND strpos(g.may_stand, ',' || t.status || ',') > 0
      AND NOT EXISTS (SELECT 1 FROM operation o WHERE o.op_id = g.op_id)
    RETURNING g.step, t.version, t.seq
), told AS (
    INSERT INTO task_event (task_id, seq, at, plan_id, tenant_id, by, reason, kind, fact)
    SELECT ($2::text[])[step], seq, ($8::timestamptz[])[step], ($9::text[])[step], ($10::text[])[step],
           ($11::text[])[step], ($12::text[])[step], ($13::text[])[step], ($14::text[])[step]
    FROM asked
), kept AS (
    INSERT INTO operation (op_id, digest, version, seq, at)
    SELECT ($4::text[])[step], ($7::bigint[])[step], version, seq, now.at FROM asked, now
), woken AS (
    UPDATE change_mark SET n = n + 1
    WHERE port = 'state' AND shard = pg_backend_pid() % 16 AND EXISTS (SELECT 1 FROM asked)
)
SELECT free.task_id, asked.step, asked.version, asked.seq, now.at
FROM now CROSS JOIN free LEFT JOIN asked ON free.task_id = ($2::text[])[asked.step]
