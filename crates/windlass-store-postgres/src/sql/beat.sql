-- $1 instance, $2 lease in ms, $3 ahead. The end of a lease is something that others may be waiting for.
WITH now AS MATERIALIZED (
    SELECT windlass_now($3) AS at
), beaten AS (
    INSERT INTO instance AS i (instance_id, up_since, lease_until)
    SELECT $1::text, at, windlass_later(at, $2) FROM now
    ON CONFLICT (instance_id) DO UPDATE SET lease_until = excluded.lease_until
    RETURNING i.lease_until
), ended AS (
    UPDATE change_mark SET n = n + 1 WHERE $2 = 0 AND port = 'state' AND shard = pg_backend_pid() % 16
)
SELECT beaten.lease_until, t.task_id, t.control
FROM beaten LEFT JOIN task_state_projection t ON t.owner = $1 AND t.owner_asked
