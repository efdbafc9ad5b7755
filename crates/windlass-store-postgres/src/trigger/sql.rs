//! The statements about triggers.

/// A trigger, as `row::trigger` reads it. What is as it mostly is, is not sent: that costs both sides more than to compare it.
macro_rules! trigger_columns {
    ($t:literal) => {
        concat!(
            $t,
            ".id, ",
            $t,
            ".parent_id, ",
            $t,
            ".tenant_id, ",
            $t,
            ".status, ",
            $t,
            ".trigger_at, ",
            "NULLIF(",
            $t,
            ".try_at, ",
            $t,
            ".trigger_at), ",
            $t,
            ".owner, ",
            $t,
            ".lease_until, ",
            $t,
            ".fence, ",
            "NULLIF(",
            $t,
            ".retry_count, 0), ",
            "NULLIF(",
            $t,
            ".held, false), ",
            $t,
            ".paused, ",
            $t,
            ".schedule, ",
            $t,
            ".target, ",
            $t,
            ".payload, ",
            "NULLIF(",
            $t,
            ".misfire, '\"once\"'), ",
            "NULLIF(",
            $t,
            ".recovery, '\"auto\"'), ",
            "NULLIF(",
            $t,
            ".overlap, '\"allow\"'), ",
            $t,
            ".max_retries, ",
            $t,
            ".backoff_first_ms, ",
            $t,
            ".backoff_max_ms, ",
            $t,
            ".error, ",
            $t,
            ".made, ",
            $t,
            ".saved_at, ",
            $t,
            ".ended_at, ",
            $t,
            ".version, ",
            "NULLIF(",
            $t,
            ".notes, 0), ",
            "NULLIF(",
            $t,
            ".asked, false)"
        )
    };
}

pub(super) const CLAIM: &str = concat!(
    "SELECT o_nth, o_at, o_since, o_next, ",
    trigger_columns!("(o_trigger)"),
    " FROM windlass_claim_triggers($1, $2, $3, $4) ORDER BY o_nth"
);
pub(super) const SETTLE: &str = "SELECT o_step FROM windlass_settle_triggers(\
     $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
pub(super) const RENEW: &str = "UPDATE triggers t \
     SET lease_until = n.until, wake_at = CASE WHEN t.paused IS NULL AND NOT t.held THEN n.until END, version = t.version + 1 \
     FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS g(id, fence, nth), \
       (SELECT windlass_later(windlass_now($4), $3) AS until) AS n \
     WHERE t.id = ANY (ARRAY[g.id]) AND t.fence = g.fence AND t.status = 'PROCESSING' RETURNING g.nth, t.lease_until";

pub(super) const LOCK: &str =
    concat!("SELECT ", trigger_columns!("t"), " FROM triggers t WHERE t.id = ANY ($1) ORDER BY t.id FOR UPDATE");
pub(super) const DRAW: &str =
    "SELECT nextval('windlass_fence') FROM (SELECT windlass_fence_forward() OFFSET 0) AS first";
macro_rules! insert {
    () => {
        "INSERT INTO triggers (id, parent_id, tenant_id, status, trigger_at, try_at, wake_at, owner, lease_until, fence, \
         retry_count, held, paused, schedule, target, payload, misfire, recovery, overlap, max_retries, backoff_first_ms, \
         backoff_max_ms, error, made, saved_at, ended_at, version, notes, asked) \
         SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], \
         $7::timestamptz[], $8::text[], $9::timestamptz[], $10::bigint[], $11::bigint[], $12::boolean[], $13::text[], \
         $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::bigint[], \
         $22::bigint[], $23::text[], $24::text[], $25::timestamptz[], $26::timestamptz[], $27::bigint[], $28::bigint[], \
         $29::boolean[])"
    };
}
pub(super) const INSERT: &str = insert!();
/// Of rows that were locked before.
pub(super) const UPDATE: &str = concat!(
    insert!(),
    " ON CONFLICT (id) DO UPDATE SET parent_id = excluded.parent_id, tenant_id = excluded.tenant_id, \
     status = excluded.status, trigger_at = excluded.trigger_at, try_at = excluded.try_at, wake_at = excluded.wake_at, \
     owner = excluded.owner, lease_until = excluded.lease_until, fence = excluded.fence, \
     retry_count = excluded.retry_count, held = excluded.held, paused = excluded.paused, schedule = excluded.schedule, \
     target = excluded.target, payload = excluded.payload, misfire = excluded.misfire, recovery = excluded.recovery, \
     overlap = excluded.overlap, max_retries = excluded.max_retries, backoff_first_ms = excluded.backoff_first_ms, \
     backoff_max_ms = excluded.backoff_max_ms, error = excluded.error, made = excluded.made, \
     saved_at = excluded.saved_at, ended_at = excluded.ended_at, version = excluded.version, notes = excluded.notes, \
     asked = excluded.asked"
);
pub(super) const ADD_NOTES: &str = "INSERT INTO trigger_note (trigger_id, seq, at, occurrence, what) \
     SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::text[])";
pub(super) const FORGET_NOTES: &str = "DELETE FROM trigger_note n USING unnest($1::text[], $2::bigint[]) AS old(id, seq) \
     WHERE n.trigger_id = ANY (ARRAY[old.id]) AND n.seq < old.seq";
pub(super) const CHANGED: &str = "SELECT windlass_changed('triggers')";

pub(super) const REMOVE: &str = "WITH gone AS (DELETE FROM triggers WHERE id = ANY ($1) RETURNING id), \
     notes AS (DELETE FROM trigger_note WHERE trigger_id IN (SELECT id FROM gone)) SELECT id FROM gone";
pub(super) const PURGE: &str = "WITH old AS (SELECT id FROM triggers WHERE status = 'COMPLETED' AND ended_at < $1 \
     ORDER BY ended_at, id LIMIT $2 FOR UPDATE SKIP LOCKED), \
     gone AS (DELETE FROM triggers WHERE id IN (SELECT id FROM old) RETURNING id), \
     notes AS (DELETE FROM trigger_note WHERE trigger_id IN (SELECT id FROM gone)) SELECT count(*) FROM gone";

pub(super) const LOAD: &str = concat!("SELECT ", trigger_columns!("t"), " FROM triggers t WHERE t.id = ANY ($1)");
pub(super) const NOTES: &str = "SELECT at, occurrence, what FROM trigger_note WHERE trigger_id = $1 ORDER BY seq";
pub(super) const FIND_DUE: &str = concat!(
    "SELECT ",
    trigger_columns!("t"),
    " FROM triggers t WHERE t.wake_at IS NOT NULL AND t.wake_at <= $1 ORDER BY t.wake_at, t.id LIMIT $2"
);
/// How far a page with a filter looks.
pub(super) const LOOK: &str = "SELECT id FROM triggers WHERE id > $1 ORDER BY id OFFSET 9999 LIMIT 1";
pub(super) const LIST: &str = concat!(
    "SELECT ",
    trigger_columns!("t"),
    " FROM triggers t WHERE t.id > $1 AND ($2::text IS NULL OR t.id <= $2) \
     AND ($3::text IS NULL OR t.tenant_id = $3) AND ($4::text[] IS NULL OR t.status = ANY ($4)) ORDER BY t.id LIMIT $5"
);
pub(super) const LIST_WAITING: &str = concat!(
    "SELECT ",
    trigger_columns!("t"),
    " FROM triggers t WHERE t.id > $1 AND $2::text IS NULL AND (t.held OR t.status = 'DEAD') \
     AND ($3::text IS NULL OR t.tenant_id = $3) AND ($4::text[] IS NULL OR t.status = ANY ($4)) ORDER BY t.id LIMIT $5"
);
