//! The statements. Short ones stand here; long ones are in `sql/` and in the functions of the migrations.

/// A task, as `state::row::task` reads it.
macro_rules! task_columns {
    ($t:literal) => {
        concat!(
            $t,
            ".task_id, ",
            $t,
            ".tenant_id, ",
            $t,
            ".plan_id, ",
            $t,
            ".position, ",
            $t,
            ".status, ",
            $t,
            ".control, ",
            $t,
            ".owner, ",
            $t,
            ".fence::text, ",
            $t,
            ".ready_at, ",
            $t,
            ".created_at, ",
            $t,
            ".started_at, ",
            $t,
            ".updated_at, ",
            $t,
            ".ended_at, ",
            $t,
            ".detail, ",
            $t,
            ".checkpoint_version, ",
            $t,
            ".version, ",
            $t,
            ".seq, ",
            $t,
            ".op_id, ",
            $t,
            ".op_digest, ",
            $t,
            ".op_at"
        )
    };
}

/// A plan, as `state::row::plan` reads it.
macro_rules! plan_columns {
    () => {
        "p.plan_id, p.name, p.status, p.tasks, p.max_concurrency, p.on_failure, p.on_conflict, p.recovery, \
         p.conductor, p.cancelled, p.created_at, p.started_at, p.updated_at, p.ended_at, p.version, p.seq"
    };
}

/// A tenant's lock and freeze, as [`crate::lock`] reads them.
macro_rules! tenant_columns {
    () => {
        "l.plan_id, l.task_id, l.fence::text, l.acquired_at, l.expires_at, f.by, f.reason, f.frozen_at"
    };
}

/// A job, as `job::row::job` reads it.
macro_rules! job_columns {
    () => {
        "t.task_id, t.queue, t.tenant_id, t.status, t.payload, t.result, t.error, t.submitted_at, t.started_at, \
         t.completed_at, t.version, t.seq, t.priority, t.run_at, t.attempt, t.max_attempts, t.deliveries, \
         t.backoff_first_ms, t.backoff_max_ms, t.timeout_ms, t.worker, t.fence, t.lease_until, t.key, t.digest, t.cancel, \
         t.asked"
    };
}

/// A RUNNING job whose lease has run out and that is not delivered again; `$1` is ahead.
macro_rules! over {
    () => {
        "t.status = 'RUNNING' AND t.lease_until <= windlass_now($1) AND (t.cancel IS NOT NULL OR t.deliveries >= 3 \
         OR windlass_deadline(t.started_at, t.timeout_ms) <= windlass_now($1))"
    };
}

// --- sessions and transactions ---

/// Every statement goes by keys, through an index. A plan is made once for a connection, often while the tables are
/// still empty; without this it would read them whole for as long as nobody has analysed them. Whoever vanishes in the middle of a
/// transaction, without a word to the server, does not keep its locks for as long as TCP is patient.
pub(crate) const SESSION: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
     SET enable_hashjoin = off; SET enable_mergejoin = off; SET idle_in_transaction_session_timeout = '30s'";

pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Several statements that see one moment.
pub(crate) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

// --- what a commit reads, in the order in which everybody locks: plans, tenants, tasks. Ids from two places are
// one array: with OR no index would do ---

macro_rules! lock_plans {
    ($how:literal) => {
        concat!(
            "SELECT ",
            plan_columns!(),
            " FROM plan_state_projection p WHERE p.plan_id = ANY (ARRAY(SELECT unnest($1::text[]) UNION ALL \
             SELECT plan_id FROM task_state_projection WHERE task_id = ANY ($2))) ORDER BY p.plan_id FOR ",
            $how
        )
    };
}
pub(crate) const LOCK_PLANS: &str = lock_plans!("UPDATE");
pub(crate) const SHARE_PLANS: &str = lock_plans!("SHARE");
pub(crate) const LOCK_TENANTS: &str = "SELECT tenant_id, fence::text, latest_task_id, started_task_id \
     FROM tenant_state WHERE tenant_id = ANY (ARRAY(SELECT unnest($1::text[]) UNION ALL \
     SELECT tenant_id FROM task_state_projection WHERE task_id = ANY ($2))) ORDER BY tenant_id FOR UPDATE";
pub(crate) const LOCK_TASKS: &str = concat!(
    "SELECT ",
    task_columns!("t"),
    " FROM task_state_projection t WHERE t.task_id = ANY ($1) ORDER BY t.task_id FOR UPDATE"
);
pub(crate) const LEASES_OF_TASKS: &str = "SELECT instance_id, lease_until FROM instance WHERE instance_id = \
     ANY (ARRAY(SELECT owner FROM task_state_projection WHERE task_id = ANY ($1) UNION ALL SELECT $2::text))";
pub(crate) const OPS: &str = "SELECT op_id, digest, version, seq, at, answer FROM operation WHERE op_id = ANY ($1)";
pub(crate) const GONE: &str = "SELECT plan_id FROM plan_gone WHERE plan_id = ANY ($1)";
pub(crate) const NOW: &str = "SELECT windlass_now($1)";

// --- what a commit writes ---

pub(crate) const INSERT_PLANS: &str = include_str!("sql/insert_plans.sql");
pub(crate) const UPDATE_PLANS: &str = include_str!("sql/update_plans.sql");
pub(crate) const PUT_PLAN_SPECS: &str = "INSERT INTO plan_spec (plan_id, spec) SELECT * FROM unnest($1::text[], $2::text[]) \
     ON CONFLICT (plan_id) DO UPDATE SET spec = excluded.spec";
pub(crate) const NAME_TASKS: &str = "UPDATE plan_state_projection p SET task_ids = \
     (SELECT json_agg(t.task_id ORDER BY t.position)::text FROM task_state_projection t WHERE t.plan_id = p.plan_id) \
     WHERE p.plan_id = ANY ($1)";
pub(crate) const PUT_TENANTS: &str = include_str!("sql/put_tenants.sql");
pub(crate) const INSERT_TASKS: &str = include_str!("sql/insert_tasks.sql");
pub(crate) const UPDATE_TASKS: &str = include_str!("sql/update_tasks.sql");
pub(crate) const PUT_TASK_SPECS: &str = "INSERT INTO task_spec (task_id, spec) SELECT * FROM unnest($1::text[], $2::text[]) \
     ON CONFLICT (task_id) DO UPDATE SET spec = excluded.spec";
pub(crate) const PUT_CHECKPOINTS: &str = include_str!("sql/put_checkpoints.sql");
pub(crate) const REMOVE_CHECKPOINTS: &str = "DELETE FROM task_checkpoint WHERE task_id = ANY ($1)";
pub(crate) const ADD_TASK_EVENTS: &str = "INSERT INTO task_event (task_id, seq, at, plan_id, tenant_id, by, reason, kind, fact) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])";
pub(crate) const ADD_PLAN_EVENTS: &str = "INSERT INTO plan_event (plan_id, seq, at, tenant_id, by, reason, kind, fact) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])";
pub(crate) const FORGET_TASK_EVENTS: &str = "DELETE FROM task_event e USING unnest($1::text[], $2::bigint[]) AS old(id, seq) \
     WHERE e.task_id = ANY (ARRAY[old.id]) AND e.seq <= old.seq";
pub(crate) const FORGET_PLAN_EVENTS: &str = "DELETE FROM plan_event e USING unnest($1::text[], $2::bigint[]) AS old(id, seq) \
     WHERE e.plan_id = ANY (ARRAY[old.id]) AND e.seq <= old.seq";
pub(crate) const ADD_OPS: &str = "INSERT INTO operation (op_id, digest, version, seq, at, answer) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::text[])";
pub(crate) const STATE_CHANGED: &str = "SELECT windlass_changed('state')";
pub(crate) const BOUNDARY: &str = include_str!("sql/boundary.sql");
pub(crate) const ASK: &str = include_str!("sql/ask.sql");

// --- taking, beating, forgetting ---

pub(crate) const TAKE: &str =
    concat!("SELECT o_verdict, ", task_columns!("(o_task)"), " FROM windlass_take($1, $2, $3, $4, $5)");
pub(crate) const OWN_TASKS: &str =
    "UPDATE task_state_projection SET owner = $2, version = version + 1 WHERE task_id = ANY ($1)";
pub(crate) const BEAT: &str = include_str!("sql/beat.sql");
pub(crate) const PURGE: &str = "SELECT windlass_purge($1, $2, $3)";

// --- reading by key: an array of ids in, rows with their id out ---

pub(crate) const LOAD_PLANS: &str =
    concat!("SELECT ", plan_columns!(), " FROM plan_state_projection p WHERE p.plan_id = ANY ($1)");
pub(crate) const LOAD_PLAN_SPECS: &str = "SELECT plan_id, spec FROM plan_spec WHERE plan_id = ANY ($1)";
pub(crate) const LOAD_TALLIES: &str = "SELECT p.plan_id, t.status, t.n FROM plan_state_projection p LEFT JOIN LATERAL \
     (SELECT status, count(*) AS n FROM task_state_projection WHERE plan_id = p.plan_id GROUP BY status) t ON true \
     WHERE p.plan_id = ANY ($1)";
pub(crate) const LOAD_PLAN_EVENTS: &str = "SELECT p.plan_id, e.seq, e.at, e.plan_id, NULL::text, e.tenant_id, e.by, e.reason, e.fact \
     FROM plan_state_projection p LEFT JOIN plan_event e USING (plan_id) WHERE p.plan_id = ANY ($1) ORDER BY p.plan_id, e.seq";
pub(crate) const LOAD_TASKS: &str =
    concat!("SELECT ", task_columns!("t"), " FROM task_state_projection t WHERE t.task_id = ANY ($1)");
pub(crate) const LOAD_TASK_SPECS: &str = "SELECT task_id, spec FROM task_spec WHERE task_id = ANY ($1)";
pub(crate) const LOAD_TASK_EVENTS: &str = "SELECT t.task_id, e.seq, e.at, e.plan_id, e.task_id, e.tenant_id, e.by, e.reason, e.fact \
     FROM task_state_projection t LEFT JOIN task_event e USING (task_id) WHERE t.task_id = ANY ($1) ORDER BY t.task_id, e.seq";
pub(crate) const LOAD_CHECKPOINTS: &str = "SELECT task_id, checkpoint FROM task_checkpoint WHERE task_id = ANY ($1)";
pub(crate) const LOAD_TENANTS: &str =
    "SELECT tenant_id, fence::text, latest_task_id, started_task_id FROM tenant_state WHERE tenant_id = ANY ($1)";
pub(crate) const LOAD_INSTANCES: &str =
    "SELECT instance_id, up_since, lease_until FROM instance WHERE instance_id = ANY ($1)";

// --- lists, by keyset ---

/// A walk for each status, along its index, merged: `$2`, `$3` is where the last page ended.
pub(crate) const LIST_PLANS: &str = concat!(
    "SELECT ",
    plan_columns!(),
    " FROM unnest($1::text[]) AS wanted(status) CROSS JOIN LATERAL ( \
       SELECT * FROM plan_state_projection i WHERE i.status = wanted.status \
         AND i.created_at <= $2 AND (i.created_at < $2 OR i.plan_id > $3) \
       ORDER BY i.created_at DESC, i.plan_id LIMIT $4) p \
     ORDER BY p.created_at DESC, p.plan_id LIMIT $4"
);
/// `$1` statuses, `$2` to `$4` where the last page ended, `$5` limit, `$6` only interrupted ones, `$7` ahead.
macro_rules! list_tasks {
    ($from:literal, $of:literal) => {
        concat!(
            "SELECT ",
            task_columns!("t"),
            " FROM ",
            $from,
            " \
               SELECT i.* FROM task_state_projection i LEFT JOIN instance o ON $6 AND o.instance_id = i.owner \
               WHERE ",
            $of,
            " \
                 AND (NOT $6 OR o.lease_until IS NULL OR o.lease_until <= (SELECT windlass_now($7))) \
                 AND i.created_at <= $2 AND (i.created_at < $2 OR (i.plan_id, i.position) > ($3, $4)) \
               ORDER BY i.created_at DESC, i.plan_id, i.position LIMIT $5) t \
             ORDER BY t.created_at DESC, t.plan_id, t.position LIMIT $5"
        )
    };
}
pub(crate) const LIST_TASKS: &str =
    list_tasks!("unnest($1::text[]) AS wanted(status) CROSS JOIN LATERAL (", "i.status = wanted.status");
// Not `status = ANY`: along the index of the statuses all tasks of all plans would be walked.
pub(crate) const LIST_TASKS_OF_PLAN: &str = list_tasks!(
    "(",
    "i.plan_id = $8 AND array_position($1::text[], i.status) IS NOT NULL AND ($9::text IS NULL OR i.tenant_id = $9)"
);
pub(crate) const LIST_TASKS_OF_TENANT: &str =
    list_tasks!("(", "i.tenant_id = $8 AND array_position($1::text[], i.status) IS NOT NULL");
pub(crate) const LIST_INSTANCES: &str = "SELECT instance_id, up_since, lease_until FROM instance \
     WHERE instance_id > $1 ORDER BY instance_id LIMIT $2";

// --- locks ---

pub(crate) const ACQUIRE: &str = "SELECT * FROM windlass_acquire($1, $2, $3, $4, $5)";
pub(crate) const RENEW: &str = include_str!("sql/renew.sql");
pub(crate) const RELEASE: &str = include_str!("sql/release.sql");
pub(crate) const FORCE: &str = "SELECT * FROM windlass_force($1, $2, $3, $4, $5)";
pub(crate) const LOAD_LOCKS: &str = concat!(
    "SELECT w.tenant_id, ",
    tenant_columns!(),
    " FROM unnest($1::text[]) WITH ORDINALITY AS w(tenant_id, nth) \
     CROSS JOIN windlass_now($2) AS now \
     LEFT JOIN tenant_lock l ON l.tenant_id = w.tenant_id AND l.expires_at > now \
     LEFT JOIN tenant_freeze f ON f.tenant_id = w.tenant_id ORDER BY w.nth"
);
pub(crate) const LIST_LOCKS: &str = include_str!("sql/list_locks.sql");
pub(crate) const PURGE_LOCKS: &str = "WITH old AS (SELECT tenant_id FROM tenant_lock WHERE expires_at < $1 AND expires_at <= windlass_now($3) \
     ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) \
     DELETE FROM tenant_lock l USING old WHERE l.tenant_id = old.tenant_id RETURNING 1";

// --- jobs ---

pub(crate) const TURN: &str =
    "SELECT * FROM windlass_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
pub(crate) const CLAIM: &str = "SELECT * FROM windlass_claim($1, $2, $3, $4, $5, $6, $7, $8)";
pub(crate) const SUBMIT: &str = "SELECT o_group, o_count FROM windlass_submit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
pub(crate) const WAITING_LIMITS: &str =
    "SELECT o_scope, o_name, o_limit, o_waiting FROM windlass_waiting_limits($1, $2)";
pub(crate) const JOBS_STORED: &str = "SELECT t.task_id, t.queue, t.tenant_id, t.key, t.digest FROM async_tasks t WHERE t.task_id = ANY ($1) \
     UNION ALL SELECT t.task_id, t.queue, t.tenant_id, t.key, t.digest \
     FROM unnest($2::text[], $3::text[], $4::text[]) AS g(queue, tenant_id, key) \
     CROSS JOIN LATERAL (SELECT k.* FROM async_tasks k \
        WHERE k.queue = g.queue AND k.tenant_id = g.tenant_id AND k.key = g.key AND k.key IS NOT NULL LIMIT 1) t \
     WHERE NOT t.task_id = ANY ($1)";
pub(crate) const LOAD_JOBS: &str = concat!("SELECT ", job_columns!(), " FROM async_tasks t WHERE t.task_id = ANY ($1)");
pub(crate) const LOCK_JOBS: &str =
    concat!("SELECT ", job_columns!(), " FROM async_tasks t WHERE t.task_id = ANY ($1) ORDER BY t.task_id FOR UPDATE");
/// Of queues that are not held.
pub(crate) const LOCK_OVER: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM async_tasks t WHERE t.queue = ANY ($2) AND ",
    over!(),
    " AND NOT EXISTS (SELECT 1 FROM job_rule r WHERE r.scope = 'queue' AND r.name = t.queue AND r.held IS NOT NULL) \
     AND NOT t.task_id = ANY ($3) LIMIT $4 FOR UPDATE OF t SKIP LOCKED"
);
pub(crate) const SWEEP: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM async_tasks t WHERE ",
    over!(),
    " ORDER BY t.lease_until LIMIT $2 FOR UPDATE SKIP LOCKED"
);
pub(crate) const UPDATE_JOBS: &str = include_str!("sql/update_jobs.sql");
pub(crate) const ENDED: &str = "SELECT windlass_ended($1)";
pub(crate) const JOBS_CHANGED: &str = "SELECT windlass_counted('jobs', 1)";
pub(crate) const LIST_LIVE: &str = include_str!("sql/list_live_jobs.sql");
/// `$1` status, `$2`, `$3` where the last page ended, `$4` queue, `$5` tenant, `$6` how many are looked at.
pub(crate) const LIST_ENDED: &str = "SELECT t.task_id, t.completed_at, t.seq, \
     ($4::text IS NULL OR t.queue = $4) AND ($5::text IS NULL OR t.tenant_id = $5) AS fits FROM async_tasks t \
     WHERE t.completed_at IS NOT NULL AND t.status = $1 AND t.completed_at <= $2 AND (t.completed_at < $2 OR t.seq < $3) \
     ORDER BY t.completed_at DESC, t.seq DESC LIMIT $6";
pub(crate) const QUEUES: &str =
    "SELECT o_queue, o_waiting, o_running, o_oldest, o_until FROM windlass_queues($1, $2, $3, $4)";
pub(crate) const PUT_RULES: &str = "INSERT INTO job_rule (scope, name, running, waiting, held) \
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) AS g(scope, name, running, waiting, held) \
     ORDER BY g.scope, g.name ON CONFLICT (scope, name) DO UPDATE SET running = excluded.running, waiting = excluded.waiting, \
     held = excluded.held";
pub(crate) const REMOVE_RULES: &str = "DELETE FROM job_rule r USING unnest($1::text[], $2::text[]) AS g(scope, name) WHERE r.scope = g.scope AND r.name = g.name";
pub(crate) const LOAD_RULES: &str = "SELECT g.nth, r.running, r.waiting, r.held \
     FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS g(scope, name, nth) \
     JOIN job_rule r ON r.scope = g.scope AND r.name = g.name ORDER BY g.nth";
/// Never a live one: those have no end.
pub(crate) const PURGE_JOBS: &str = "WITH askers AS (DELETE FROM job_asker WHERE until < $1 AND until <= windlass_now($3)) \
     DELETE FROM async_tasks WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM unnest(ARRAY['COMPLETED', 'FAILED', 'CANCELLED']) AS s(status) \
     CROSS JOIN LATERAL (SELECT t.ctid FROM async_tasks t WHERE t.completed_at IS NOT NULL AND t.status = s.status \
       AND t.completed_at < $1 ORDER BY t.completed_at, t.seq LIMIT $2 FOR UPDATE SKIP LOCKED) o LIMIT $2)) RETURNING 1";

// --- wake-ups ---

pub(crate) const MARK: &str = "SELECT sum(n)::bigint FROM change_mark WHERE port = $1";
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, said) FROM unnest($2::text[]) AS said";
