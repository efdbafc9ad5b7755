-- Triggers. JSON is kept as text, so that what users wrote comes back as they wrote it.

CREATE TABLE triggers (
    id               text COLLATE "C" PRIMARY KEY,
    parent_id        text COLLATE "C",
    tenant_id        text COLLATE "C",
    status           text NOT NULL,
    -- The occurrence; when it is tried; when somebody must look at it: its time, or the end of its owner's lease.
    trigger_at       timestamptz(3) NOT NULL,
    try_at           timestamptz(3) NOT NULL,
    wake_at          timestamptz(3),
    owner            text COLLATE "C",
    lease_until      timestamptz(3),
    fence            bigint NOT NULL,
    retry_count      bigint NOT NULL,
    held             boolean NOT NULL,
    paused           text,
    schedule         text NOT NULL,
    target           text NOT NULL,
    payload          text,
    misfire          text NOT NULL,
    recovery         text NOT NULL,
    overlap          text NOT NULL,
    max_retries      bigint NOT NULL,
    backoff_first_ms bigint NOT NULL,
    backoff_max_ms   bigint NOT NULL,
    error            text,
    made             text,
    saved_at         timestamptz(3) NOT NULL,
    ended_at         timestamptz(3),
    version          bigint NOT NULL,
    notes            bigint NOT NULL,
    -- A person fired it.
    asked            boolean NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
-- What claims read. Everything else is found by id, or waits for a person, or for retention.
CREATE INDEX trigger_due ON triggers (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX trigger_waiting ON triggers (id) WHERE held OR status = 'DEAD';
CREATE INDEX trigger_ended ON triggers (ended_at, id) WHERE status = 'COMPLETED';

-- The newest notes of each trigger.
CREATE TABLE trigger_note (
    trigger_id text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    at         timestamptz(3) NOT NULL,
    occurrence timestamptz(3) NOT NULL,
    what       text NOT NULL,
    PRIMARY KEY (trigger_id, seq)
);

-- Since when there has been a scheduler without a gap, and until when the longest lease of a claim runs: one row.
CREATE TABLE scheduler_life (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    since timestamptz(3) NOT NULL,
    until timestamptz(3) NOT NULL
) WITH (fillfactor = 10);
INSERT INTO scheduler_life (since, until) VALUES (timestamptz '1970-01-01 00:00:00+00', timestamptz '1970-01-01 00:00:00+00');

INSERT INTO change_mark (port, shard) SELECT 'triggers', shard FROM generate_series(0, 15) AS shard;

-- Claims what is due, in order. The first row, without a trigger, says when the next one is.
CREATE FUNCTION windlass_claim_triggers(p_owner text, p_lease_ms bigint, p_limit bigint, p_ahead_ms bigint)
RETURNS TABLE (o_nth bigint, o_at timestamptz, o_since timestamptz, o_next timestamptz, o_trigger triggers)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := windlass_now(p_ahead_ms);
    v_until timestamptz := windlass_later(v_now, p_lease_ms);
    v_rows tid[];
    v_last_at timestamptz;
    v_last_id text COLLATE "C";
    v_fence bigint;
BEGIN
    v_rows := ARRAY(
        SELECT ctid FROM triggers WHERE wake_at IS NOT NULL AND wake_at <= v_now
        ORDER BY wake_at, id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    o_nth := 0;
    o_at := v_now;
    IF v_rows = '{}' THEN
        SELECT wake_at INTO o_next FROM triggers WHERE wake_at IS NOT NULL ORDER BY wake_at, id LIMIT 1;
    ELSE
        SELECT wake_at, id INTO v_last_at, v_last_id FROM triggers WHERE ctid = v_rows[cardinality(v_rows)];
        SELECT wake_at INTO o_next FROM triggers
        WHERE wake_at IS NOT NULL AND (wake_at, id) > (v_last_at, v_last_id) ORDER BY wake_at, id LIMIT 1;
        PERFORM windlass_fence_forward();
        v_fence := nextval('windlass_fence');
        RETURN QUERY
        UPDATE triggers t
        SET status = 'PROCESSING', owner = p_owner, fence = v_fence, lease_until = v_until, wake_at = v_until,
            retry_count = t.retry_count + (t.status = 'PROCESSING')::integer, version = t.version + 1
        FROM unnest(v_rows) WITH ORDINALITY AS g(row, nth)
        WHERE t.ctid = g.row
        RETURNING g.nth, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, t;
    END IF;
    -- The one row that every scheduler shares comes last.
    UPDATE scheduler_life SET since = CASE WHEN v_now > until THEN v_now ELSE since END, until = greatest(until, v_until)
    RETURNING since INTO o_since;
    RETURN NEXT;
END
$$;

-- Settles claims, every trigger once, that end plainly. One that is not in the answer was left alone, and is for the
-- caller to judge in full.
CREATE FUNCTION windlass_settle_triggers(
    p_ids text[], p_fences bigint[], p_statuses text[], p_trigger_at timestamptz[], p_try_at timestamptz[],
    p_retry_counts bigint[], p_held boolean[], p_errors text[], p_made text[], p_ended_at timestamptz[], p_notes bigint[],
    p_n_steps bigint[], p_n_nths bigint[], p_n_at timestamptz[], p_n_occurrences timestamptz[], p_n_what text[],
    p_asked boolean[]
) RETURNS TABLE (o_step bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- By step: how many notes the trigger has now; nothing where it was left alone.
    v_notes bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_ids)]);
    v_full boolean := false;
    v_step bigint;
    v_count bigint;
BEGIN
    FOR v_step, v_count IN
        UPDATE triggers t
        SET status = g.status, trigger_at = g.trigger_at, try_at = g.try_at, retry_count = g.retry_count, held = g.held, asked = g.asked,
            owner = NULL, lease_until = NULL, error = g.error, made = g.made, ended_at = g.ended_at,
            wake_at = CASE WHEN t.paused IS NULL AND NOT g.held AND g.status = 'PENDING' THEN g.try_at END,
            version = t.version + 1, notes = t.notes + g.notes
        FROM unnest(p_ids, p_fences, p_statuses, p_trigger_at, p_try_at, p_retry_counts, p_held, p_errors, p_made, p_ended_at, p_notes, p_asked)
            WITH ORDINALITY AS g(id, fence, status, trigger_at, try_at, retry_count, held, error, made, ended_at, notes, asked, step)
        WHERE t.id = ANY (ARRAY[g.id]) AND t.fence = g.fence AND t.status = 'PROCESSING'
        RETURNING g.step, t.notes
    LOOP
        v_notes[v_step] := v_count;
        v_full := v_full OR v_count > 100;
        o_step := v_step;
        RETURN NEXT;
    END LOOP;
    INSERT INTO trigger_note (trigger_id, seq, at, occurrence, what)
    SELECT p_ids[n.step], v_notes[n.step] - p_notes[n.step] + n.nth, n.at, n.occurrence, n.what
    FROM unnest(p_n_steps, p_n_nths, p_n_at, p_n_occurrences, p_n_what) AS n(step, nth, at, occurrence, what)
    WHERE v_notes[n.step] IS NOT NULL;
    IF v_full THEN
        DELETE FROM trigger_note n USING unnest(p_ids, v_notes) AS g(id, notes)
        WHERE g.notes > 100 AND n.trigger_id = ANY (ARRAY[g.id]) AND n.seq < g.notes - 100;
    END IF;
END
$$;
