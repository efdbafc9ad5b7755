-- State and locks. Ids are compared byte by byte (COLLATE "C"). Times are UTC, exact to the millisecond. Fences are
-- unsigned 64-bit numbers, which no integer type here holds. JSON is kept as text, so that what users wrote comes back
-- as they wrote it; `column::json` reads it.
--
-- What comes in an array is looked up with `= ANY (ARRAY[g.id])`, one by one by the key's index. With `= g.id` a server whose
-- last VACUUM found the table empty walks all of it for every call, until the next one.

CREATE TABLE plan_state_projection (
    plan_id         text COLLATE "C" PRIMARY KEY,
    name            text NOT NULL,
    status          text NOT NULL,
    task_ids        text NOT NULL DEFAULT '[]',
    tasks           bigint NOT NULL,
    max_concurrency bigint NOT NULL,
    on_failure      text NOT NULL,
    on_conflict     text NOT NULL,
    recovery        text NOT NULL,
    conductor       text COLLATE "C",
    cancelled       boolean NOT NULL,
    created_at      timestamptz(3) NOT NULL,
    started_at      timestamptz(3),
    updated_at      timestamptz(3) NOT NULL,
    ended_at        timestamptz(3),
    version         bigint NOT NULL,
    seq             bigint NOT NULL
);
CREATE INDEX plan_by_status ON plan_state_projection (status, created_at DESC, plan_id);
CREATE INDEX plan_ended ON plan_state_projection (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE plan_spec (
    plan_id text COLLATE "C" PRIMARY KEY,
    spec    text NOT NULL
);

CREATE TABLE plan_event (
    plan_id   text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    at        timestamptz(3) NOT NULL,
    tenant_id text COLLATE "C",
    by        text,
    reason    text,
    kind      text NOT NULL,
    fact      text NOT NULL,
    PRIMARY KEY (plan_id, seq)
);

-- Plans that retention has removed and whose tasks are still to go. Their ids are not free before that.
CREATE TABLE plan_gone (
    plan_id text COLLATE "C" PRIMARY KEY
);

-- A plain boundary changes no indexed column, so that it is a HOT update; hence the room in every page.
CREATE TABLE task_state_projection (
    task_id            text COLLATE "C" PRIMARY KEY,
    tenant_id          text COLLATE "C" NOT NULL,
    plan_id            text COLLATE "C" NOT NULL,
    position           bigint NOT NULL,
    status             text NOT NULL,
    pause_requested    boolean NOT NULL DEFAULT false,
    start_requested    boolean NOT NULL DEFAULT false,
    owner_asked        boolean NOT NULL DEFAULT false,
    control            text,
    owner              text COLLATE "C",
    fence              numeric(20) NOT NULL,
    ready_at           timestamptz(3) NOT NULL,
    created_at         timestamptz(3) NOT NULL,
    started_at         timestamptz(3),
    updated_at         timestamptz(3) NOT NULL,
    ended_at           timestamptz(3),
    detail             text NOT NULL,
    checkpoint_version bigint NOT NULL DEFAULT 0,
    version            bigint NOT NULL,
    seq                bigint NOT NULL,
    op_id              text COLLATE "C",
    op_digest          bigint,
    op_at              timestamptz(3)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX task_by_status ON task_state_projection (status, created_at DESC, plan_id, position);
CREATE INDEX task_by_tenant ON task_state_projection (tenant_id, created_at DESC, plan_id, position);
CREATE INDEX task_by_plan ON task_state_projection (plan_id, created_at DESC, position);
CREATE INDEX task_ready ON task_state_projection (plan_id, ready_at, position)
    WHERE start_requested OR status = 'PENDING';
CREATE INDEX task_slot ON task_state_projection (plan_id) WHERE owner IS NOT NULL;
CREATE INDEX task_asked ON task_state_projection (owner, task_id) WHERE owner_asked;

CREATE TABLE task_spec (
    task_id text COLLATE "C" PRIMARY KEY,
    spec    text NOT NULL
);

CREATE TABLE task_checkpoint (
    task_id                    text COLLATE "C" PRIMARY KEY,
    version                    bigint NOT NULL,
    last_completed_stage_index integer NOT NULL,
    saved_at                   timestamptz(3) NOT NULL,
    executor_instance          text COLLATE "C",
    fence                      numeric(20) NOT NULL,
    checkpoint                 text NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE task_event (
    task_id   text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    at        timestamptz(3) NOT NULL,
    plan_id   text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C",
    by        text,
    reason    text,
    kind      text NOT NULL,
    fact      text NOT NULL,
    PRIMARY KEY (task_id, seq)
);

-- A tenant as state sees it: the highest fence that has written, and its latest tasks. The fence is kept for ever.
CREATE TABLE tenant_state (
    tenant_id       text COLLATE "C" PRIMARY KEY,
    fence           numeric(20) NOT NULL DEFAULT 0,
    latest_task_id  text COLLATE "C",
    started_task_id text COLLATE "C"
) WITH (fillfactor = 60);

CREATE TABLE operation (
    op_id   text COLLATE "C" PRIMARY KEY,
    digest  bigint NOT NULL,
    version bigint NOT NULL,
    seq     bigint NOT NULL,
    at      timestamptz(3) NOT NULL,
    answer  text
);
CREATE INDEX operation_age ON operation (at);

CREATE TABLE instance (
    instance_id text COLLATE "C" PRIMARY KEY,
    up_since    timestamptz(3) NOT NULL,
    lease_until timestamptz(3) NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE tenant_lock (
    tenant_id   text COLLATE "C" PRIMARY KEY,
    plan_id     text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C" NOT NULL,
    fence       numeric(20) NOT NULL,
    acquired_at timestamptz(3) NOT NULL,
    expires_at  timestamptz(3) NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX tenant_lock_expires ON tenant_lock (expires_at);

CREATE TABLE tenant_freeze (
    tenant_id text COLLATE "C" PRIMARY KEY,
    by        text NOT NULL,
    reason    text,
    frozen_at timestamptz(3) NOT NULL
);

-- The last fence that was drawn: one row.
CREATE TABLE fence_counter (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    last numeric(20) NOT NULL
);
INSERT INTO fence_counter (last) VALUES (0);

-- How often something changed that somebody may be waiting for: the sum over a port's shards. Every session counts in
-- a shard of its own, so that commits do not wait for each other here.
CREATE TABLE change_mark (
    port  text NOT NULL,
    shard integer NOT NULL,
    n     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (port, shard)
) WITH (fillfactor = 10);
INSERT INTO change_mark (port, shard) SELECT port, shard FROM unnest(ARRAY['state', 'locks']) AS port, generate_series(0, 15) AS shard;

-- `ms` after `at`, to the millisecond, at most the last day that every store can express.
CREATE FUNCTION windlass_later(at timestamptz, ms bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT least(date_trunc('milliseconds', at + ms * interval '1 millisecond'), timestamptz '9999-12-30 00:00:00+00')
$$;

-- The store's clock, as somebody whose clock runs ahead sees it.
CREATE FUNCTION windlass_now(ahead_ms bigint) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT windlass_later(clock_timestamp(), ahead_ms)
$$;

-- In plpgsql, which keeps its plans from call to call; a function in SQL is planned every time.
CREATE FUNCTION windlass_changed(p_port text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE change_mark SET n = n + 1 WHERE port = p_port AND shard = pg_backend_pid() % 16;
END
$$;

-- The hot path: steps of owners and claimers, one existing task each, every task and tenant at most once. A step that
-- may be written is written and answered; one that is not in the answer was left alone, and is for the caller to judge
-- again in full (a refusal, a repeat, or something this function does not do).
CREATE FUNCTION windlass_boundary(
    p_ahead_ms bigint,
    p_tasks text[], p_tenants text[], p_plans text[], p_positions bigint[], p_created timestamptz[],
    p_from text[], p_writers text[], p_fences text[], p_ops text[], p_digests bigint[],
    p_statuses text[], p_running boolean[], p_owners text[], p_task_fences text[], p_ready timestamptz[],
    p_started timestamptz[], p_updated timestamptz[], p_ended timestamptz[], p_details text[], p_events bigint[],
    p_ck_versions bigint[], p_ck_lasts integer[], p_ck_saved timestamptz[], p_ck_instances text[], p_ck_bodies text[],
    p_ev_steps bigint[], p_ev_nths bigint[], p_ev_at timestamptz[], p_ev_tasks text[], p_ev_plans text[],
    p_ev_tenants text[], p_ev_by text[], p_ev_reasons text[], p_ev_kinds text[], p_ev_facts text[]
) RETURNS TABLE (o_step bigint, o_version bigint, o_seq bigint, o_control text, o_at timestamptz, o_wakes boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    -- By step: where its task stands; the number of the task's newest event, -1 where it may not be written; whether an
    -- attempt begins.
    v_rows tid[];
    v_seqs bigint[];
    v_begun boolean[];
    v_steps bigint[];
    v_raises boolean;
    v_forgets boolean;
    v_wakes boolean;
BEGIN
    -- Locked before anything is compared, in one order for everybody: by tenant, and a tenant before its task. What is
    -- compared is what was locked: others may have committed meanwhile.
    SELECT array_agg(j.at_row ORDER BY j.step), array_agg(CASE WHEN j.good THEN j.seq ELSE -1 END ORDER BY j.step),
           array_agg(j.begun ORDER BY j.step), array_agg(j.step ORDER BY j.step),
           bool_or(j.good AND j.raises), bool_or(j.good AND j.seq + j.events > 200)
    INTO v_rows, v_seqs, v_begun, v_steps, v_raises, v_forgets
    FROM (
        SELECT g.step, t.ctid AS at_row, t.seq, g.events, coalesce(g.fence > t.fence, false) AS begun,
               g.writer_fence IS NOT NULL AND (g.fence > t.fence OR g.writer_fence > s.fence) AS raises,
               coalesce(
                   t.owner = g.writer
                   AND t.op_id IS DISTINCT FROM g.op_id
                   AND (g.writer_fence IS NULL OR s.fence <= g.writer_fence)
                   AND strpos(g.may_stand, ',' || t.status || ',') > 0
                   AND (t.tenant_id, t.plan_id, t.position, t.created_at) = (g.tenant_id, g.plan_id, g.position, g.created_at)
                   AND (g.ck_version IS NULL OR g.ck_version = 0 OR g.ck_version = t.checkpoint_version + 1)
                   AND NOT (t.start_requested AND g.running AND g.fence > t.fence),
                   false
               ) AS good
        FROM unnest(
            p_tasks, p_tenants, p_plans, p_positions, p_created, p_from, p_writers, p_fences::numeric[], p_ops, p_running,
            p_task_fences::numeric[], p_events, p_ck_versions
        ) WITH ORDINALITY AS g(
            task_id, tenant_id, plan_id, position, created_at, may_stand, writer, writer_fence, op_id, running,
            fence, events, ck_version, step
        )
        JOIN tenant_state s ON s.tenant_id = ANY (ARRAY[g.tenant_id])
        JOIN task_state_projection t ON t.task_id = ANY (ARRAY[g.task_id])
        ORDER BY g.tenant_id
        FOR UPDATE OF s, t
    ) j;
    v_now := windlass_now(p_ahead_ms);
    -- What is not there may not be written either.
    IF cardinality(v_steps) IS DISTINCT FROM cardinality(p_tasks) THEN
        SELECT array_agg(v_rows[g.place] ORDER BY g.step), array_agg(coalesce(v_seqs[g.place], -1) ORDER BY g.step),
               array_agg(coalesce(v_begun[g.place], false) ORDER BY g.step)
        INTO v_rows, v_seqs, v_begun
        FROM (SELECT step, array_position(v_steps, step::bigint) AS place FROM generate_subscripts(p_tasks, 1) AS step) g;
    END IF;

    IF v_raises THEN
        UPDATE tenant_state s
        SET fence = greatest(s.fence, g.fence),
            latest_task_id = CASE WHEN g.begun THEN g.task_id ELSE s.latest_task_id END,
            started_task_id = CASE WHEN g.begun THEN g.task_id ELSE s.started_task_id END
        FROM unnest(p_tenants, p_tasks, p_fences::numeric[], v_seqs, v_begun) AS g(tenant_id, task_id, fence, seq, begun)
        WHERE s.tenant_id = ANY (ARRAY[g.tenant_id]) AND g.seq >= 0 AND g.fence IS NOT NULL AND (g.begun OR g.fence > s.fence);
    END IF;

    UPDATE task_checkpoint c
    SET version = g.version, last_completed_stage_index = g.last, saved_at = g.saved_at, executor_instance = g.instance,
        fence = g.fence, checkpoint = g.body
    FROM unnest(p_tasks, p_ck_versions, p_ck_lasts, p_ck_saved, p_ck_instances, p_fences::numeric[], p_ck_bodies, v_seqs)
        AS g(task_id, version, last, saved_at, instance, fence, body, seq)
    WHERE g.seq >= 0 AND g.version > 1 AND c.task_id = ANY (ARRAY[g.task_id]);
    IF 1 = ANY (p_ck_versions) THEN
        INSERT INTO task_checkpoint
            (task_id, version, last_completed_stage_index, saved_at, executor_instance, fence, checkpoint)
        SELECT g.task_id, g.version, g.last, g.saved_at, g.instance, g.fence, g.body
        FROM unnest(p_tasks, p_ck_versions, p_ck_lasts, p_ck_saved, p_ck_instances, p_fences::numeric[], p_ck_bodies, v_seqs)
            AS g(task_id, version, last, saved_at, instance, fence, body, seq)
        WHERE g.seq >= 0 AND g.version = 1;
    END IF;
    IF 0 = ANY (p_ck_versions) THEN
        DELETE FROM task_checkpoint c USING unnest(p_tasks, p_ck_versions, v_seqs) AS g(task_id, version, seq)
        WHERE g.seq >= 0 AND g.version = 0 AND c.task_id = ANY (ARRAY[g.task_id]);
    END IF;

    INSERT INTO task_event (task_id, seq, at, plan_id, tenant_id, by, reason, kind, fact)
    SELECT e.task_id, v_seqs[e.step] + e.nth, e.at, e.plan_id, e.tenant_id, e.by, e.reason, e.kind, e.fact
    FROM unnest(p_ev_steps, p_ev_nths, p_ev_at, p_ev_tasks, p_ev_plans, p_ev_tenants, p_ev_by, p_ev_reasons, p_ev_kinds, p_ev_facts)
        AS e(step, nth, at, task_id, plan_id, tenant_id, by, reason, kind, fact)
    WHERE v_seqs[e.step] >= 0 AND e.nth > p_events[e.step] - 200;
    IF v_forgets THEN
        DELETE FROM task_event e USING unnest(p_tasks, p_events, v_seqs) AS g(task_id, events, seq)
        WHERE g.seq >= 0 AND g.seq + g.events > 200 AND e.task_id = ANY (ARRAY[g.task_id]) AND e.seq <= g.seq + g.events - 200;
    END IF;

    -- A task that is given back is ready again; one that its owner gives up leaves a slot, for which something can wait only
    -- in a plan that has more tasks than slots.
    v_wakes := EXISTS (
        SELECT 1 FROM unnest(p_plans, p_owners, p_fences, v_seqs) AS g(plan_id, owner, fence, seq)
        WHERE g.owner IS NULL AND g.seq >= 0 AND (
            g.fence IS NULL
            OR EXISTS (SELECT 1 FROM plan_state_projection p WHERE p.plan_id = g.plan_id AND p.tasks > p.max_concurrency)));
    IF v_wakes THEN
        PERFORM windlass_changed('state');
    END IF;

    RETURN QUERY
    UPDATE task_state_projection t
    SET status = g.status, owner = g.owner, fence = g.fence, ready_at = g.ready_at, started_at = g.started_at,
        updated_at = g.updated_at, ended_at = g.ended_at, detail = g.detail,
        -- What is asked of a task that stays where it stands, stays asked.
        control = CASE WHEN g.running OR g.status = t.status THEN t.control END,
        pause_requested = (g.running OR g.status = t.status) AND t.pause_requested,
        start_requested = (g.running OR g.status = t.status) AND t.start_requested,
        owner_asked = (g.running OR g.status = t.status) AND t.owner_asked,
        checkpoint_version = coalesce(g.ck_version, t.checkpoint_version),
        version = t.version + 1, seq = t.seq + g.events,
        op_id = g.op_id, op_digest = g.digest, op_at = v_now
    FROM unnest(
        p_tasks, p_ops, p_digests, p_statuses, p_running, p_owners, p_task_fences::numeric[], p_ready, p_started,
        p_updated, p_ended, p_details, p_events, p_ck_versions, v_rows, v_seqs
    ) WITH ORDINALITY AS g(
        task_id, op_id, digest, status, running, owner, fence, ready_at, started_at,
        updated_at, ended_at, detail, events, ck_version, at_row, seq, step
    )
    WHERE t.ctid = g.at_row AND g.seq >= 0
    RETURNING g.step, t.version, t.seq, t.control, v_now, v_wakes;
END
$$;

-- Hands out ready tasks, within each plan's slots, in order. The first column is `NO_LEASE` in the one row that an
-- instance without a lease gets. A plan from which somebody else hands out is passed over, unless one waits; `PASSED` in
-- the one row says that there was nothing else. Who passes over never waits while it has plans locked, and who waits
-- locks them all in one order.
CREATE FUNCTION windlass_take(p_instance text, p_plan text, p_limit bigint, p_waits boolean, p_ahead_ms bigint)
RETURNS TABLE (o_verdict text, o_task task_state_projection)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := windlass_now(p_ahead_ms);
    v_left bigint := p_limit;
    v_plans text[] := ARRAY[p_plan];
    v_plan record;
    v_slots bigint;
    v_used bigint;
    v_task record;
    v_taken text[] := '{}';
    v_passed boolean := false;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM instance WHERE instance_id = p_instance AND lease_until > v_now) THEN
        o_verdict := 'NO_LEASE';
        RETURN NEXT;
        RETURN;
    END IF;
    IF p_plan IS NULL THEN
        -- The oldest first: it has waited longest. Along the index of those that run, however many have ended.
        v_plans := ARRAY(
            SELECT p.plan_id FROM plan_state_projection p
            WHERE p.status = 'RUNNING'
              AND EXISTS (SELECT 1 FROM instance i WHERE i.instance_id = p.conductor AND i.lease_until > v_now)
            ORDER BY p.created_at, p.plan_id DESC);
    END IF;
    FOR v_plan IN
        SELECT w.plan_id FROM unnest(v_plans) WITH ORDINALITY AS w(plan_id, nth)
        WHERE EXISTS (
            SELECT 1 FROM task_state_projection t
            WHERE t.plan_id = w.plan_id AND (t.start_requested OR t.status = 'PENDING')
              AND t.ready_at <= v_now
              AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.instance_id = t.owner AND i.lease_until > v_now)
          )
        ORDER BY w.nth
    LOOP
        EXIT WHEN v_left <= 0;
        -- Whoever hands out in this plan counts its slots alone.
        IF p_waits THEN
            SELECT p.max_concurrency INTO v_slots FROM plan_state_projection p
            JOIN instance i ON i.instance_id = p.conductor AND i.lease_until > v_now
            WHERE p.plan_id = v_plan.plan_id AND (p.status = 'RUNNING') IS TRUE FOR UPDATE OF p;
        ELSE
            SELECT p.max_concurrency INTO v_slots FROM plan_state_projection p
            JOIN instance i ON i.instance_id = p.conductor AND i.lease_until > v_now
            WHERE p.plan_id = v_plan.plan_id AND (p.status = 'RUNNING') IS TRUE FOR UPDATE OF p SKIP LOCKED;
        END IF;
        v_passed := v_passed OR NOT FOUND;
        CONTINUE WHEN NOT FOUND;
        SELECT count(*) INTO v_used FROM task_state_projection t WHERE t.plan_id = v_plan.plan_id AND t.owner IS NOT NULL;
        FOR v_task IN
            SELECT t.task_id, t.owner FROM task_state_projection t
            WHERE t.plan_id = v_plan.plan_id AND (t.start_requested OR t.status = 'PENDING')
              AND t.ready_at <= v_now
              AND (t.owner IS NOT NULL OR v_used < v_slots)
              AND NOT EXISTS (SELECT 1 FROM instance i WHERE i.instance_id = t.owner AND i.lease_until > v_now)
            -- By readiness: what was asked for, what a dead instance claimed, the rest.
            ORDER BY NOT t.start_requested, t.owner IS NULL AND NOT t.start_requested, t.ready_at, t.position
            FOR UPDATE OF t SKIP LOCKED
        LOOP
            EXIT WHEN v_left <= 0;
            -- One whose owner is gone has its slot already.
            CONTINUE WHEN v_used - (v_task.owner IS NOT NULL)::integer >= v_slots;
            v_used := v_used + (v_task.owner IS NULL)::integer;
            v_left := v_left - 1;
            v_taken := v_taken || v_task.task_id;
        END LOOP;
    END LOOP;
    RETURN QUERY
    WITH taken AS (
        UPDATE task_state_projection t SET owner = p_instance, version = t.version + 1
        FROM unnest(v_taken) WITH ORDINALITY AS g(task_id, nth)
        WHERE t.task_id = ANY (ARRAY[g.task_id]) RETURNING g.nth, t AS task
    )
    SELECT 'TAKEN', task FROM taken ORDER BY nth;
    IF v_passed AND v_left = p_limit AND NOT p_waits THEN
        o_verdict := 'PASSED';
        o_task := NULL;
        RETURN NEXT;
    END IF;
END
$$;

-- Retention: a plan goes first, at once; its tasks follow while there is room. Answers how many tasks, operations and
-- instances went.
CREATE FUNCTION windlass_purge(p_before timestamptz, p_limit bigint, p_ahead_ms bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_left bigint := p_limit;
    v_plan text;
    v_tasks text[];
    v_gone bigint;
BEGIN
    WHILE v_left > 0 LOOP
        SELECT plan_id INTO v_plan FROM plan_gone ORDER BY plan_id LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            SELECT plan_id INTO v_plan FROM plan_state_projection
            WHERE ended_at < p_before AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')
            ORDER BY ended_at LIMIT 1 FOR UPDATE SKIP LOCKED;
            EXIT WHEN NOT FOUND;
            DELETE FROM plan_state_projection WHERE plan_id = v_plan;
            DELETE FROM plan_spec WHERE plan_id = v_plan;
            DELETE FROM plan_event WHERE plan_id = v_plan;
            INSERT INTO plan_gone (plan_id) VALUES (v_plan);
        END IF;
        v_tasks := ARRAY(SELECT task_id FROM task_state_projection WHERE plan_id = v_plan LIMIT v_left);
        PERFORM 1 FROM tenant_state WHERE tenant_id IN (
            SELECT tenant_id FROM task_state_projection WHERE task_id = ANY (v_tasks)
        ) ORDER BY tenant_id FOR UPDATE;
        PERFORM 1 FROM task_state_projection WHERE task_id = ANY (v_tasks) ORDER BY task_id FOR UPDATE;
        -- The fence stays for ever; the names only while what they name is there.
        UPDATE tenant_state s
        SET latest_task_id = CASE WHEN s.latest_task_id = ANY (v_tasks) THEN NULL ELSE s.latest_task_id END,
            started_task_id = CASE WHEN s.started_task_id = ANY (v_tasks) THEN NULL ELSE s.started_task_id END
        FROM task_state_projection t
        WHERE t.task_id = ANY (v_tasks) AND s.tenant_id = t.tenant_id
          AND (s.latest_task_id = ANY (v_tasks) OR s.started_task_id = ANY (v_tasks));
        DELETE FROM task_spec WHERE task_id = ANY (v_tasks);
        DELETE FROM task_checkpoint WHERE task_id = ANY (v_tasks);
        DELETE FROM task_event WHERE task_id = ANY (v_tasks);
        DELETE FROM task_state_projection WHERE task_id = ANY (v_tasks);
        v_left := v_left - cardinality(v_tasks);
        IF v_left > 0 THEN
            DELETE FROM plan_gone WHERE plan_id = v_plan;
        END IF;
    END LOOP;
    DELETE FROM operation WHERE op_id IN (
        SELECT op_id FROM operation WHERE at < p_before ORDER BY at LIMIT v_left FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    v_left := v_left - v_gone;
    DELETE FROM instance WHERE instance_id IN (
        SELECT instance_id FROM instance WHERE lease_until < p_before AND lease_until <= windlass_now(p_ahead_ms)
        LIMIT v_left FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN p_limit - v_left + v_gone;
END
$$;

-- Grants locks, every tenant at most once a call. What is not granted is answered with who holds it or who froze it;
-- with neither if the holder has let go in between: ask again.
CREATE FUNCTION windlass_acquire(p_tenants text[], p_plans text[], p_tasks text[], p_ttl_ms bigint[], p_ahead_ms bigint)
RETURNS TABLE (
    o_nth bigint, o_granted boolean,
    o_plan text, o_task text, o_fence text, o_since timestamptz, o_until timestamptz,
    o_by text, o_reason text, o_frozen_at timestamptz
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_granted bigint;
    -- The fences of this call are larger than this, and no others are.
    v_base numeric;
BEGIN
    PERFORM 1 FROM tenant_lock WHERE tenant_id = ANY (p_tenants) ORDER BY tenant_id FOR UPDATE;
    v_now := windlass_now(p_ahead_ms);
    -- What is granted has no fence yet; nobody else sees that.
    INSERT INTO tenant_lock AS l (tenant_id, plan_id, task_id, fence, acquired_at, expires_at)
    SELECT w.tenant_id, w.plan_id, w.task_id, 0, v_now, windlass_later(v_now, w.ttl_ms)
    FROM unnest(p_tenants, p_plans, p_tasks, p_ttl_ms) AS w(tenant_id, plan_id, task_id, ttl_ms)
    WHERE NOT EXISTS (SELECT 1 FROM tenant_freeze f WHERE f.tenant_id = w.tenant_id)
    ORDER BY w.tenant_id
    ON CONFLICT (tenant_id) DO UPDATE SET
        plan_id = excluded.plan_id, task_id = excluded.task_id, fence = 0,
        acquired_at = CASE WHEN l.expires_at > v_now THEN l.acquired_at ELSE v_now END,
        expires_at = excluded.expires_at
    WHERE l.task_id = excluded.task_id OR l.expires_at <= v_now;
    GET DIAGNOSTICS v_granted = ROW_COUNT;
    -- The one row that everybody shares comes last, and only for what is granted.
    IF v_granted > 0 THEN
        UPDATE fence_counter
        SET last = greatest(last + 1, trunc(extract(epoch FROM clock_timestamp()) * 1000000)) + v_granted - 1
        RETURNING last - v_granted INTO v_base;
        UPDATE tenant_lock l SET fence = v_base + g.nth
        FROM (
            SELECT w.tenant_id, row_number() OVER (ORDER BY w.nth) AS nth
            FROM unnest(p_tenants) WITH ORDINALITY AS w(tenant_id, nth)
            JOIN tenant_lock n ON n.tenant_id = w.tenant_id AND n.fence = 0
        ) g
        WHERE l.tenant_id = g.tenant_id;
    END IF;
    RETURN QUERY
    SELECT w.nth, coalesce(l.fence > v_base, false), l.plan_id, l.task_id, l.fence::text, l.acquired_at, l.expires_at,
           f.by, f.reason, f.frozen_at
    FROM unnest(p_tenants) WITH ORDINALITY AS w(tenant_id, nth)
    LEFT JOIN tenant_lock l ON l.tenant_id = w.tenant_id AND (l.expires_at > v_now OR l.fence > v_base)
    LEFT JOIN tenant_freeze f ON f.tenant_id = w.tenant_id
    ORDER BY w.nth;
END
$$;

-- What a person does to a tenant's lock; answers how it was before.
CREATE FUNCTION windlass_force(p_tenant text, p_what text, p_by text, p_reason text, p_ahead_ms bigint)
RETURNS TABLE (
    o_plan text, o_task text, o_fence text, o_since timestamptz, o_until timestamptz,
    o_by text, o_reason text, o_frozen_at timestamptz
)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
BEGIN
    PERFORM 1 FROM tenant_lock WHERE tenant_id = p_tenant FOR UPDATE;
    PERFORM 1 FROM tenant_freeze WHERE tenant_id = p_tenant FOR UPDATE;
    v_now := windlass_now(p_ahead_ms);
    RETURN QUERY
    SELECT l.plan_id, l.task_id, l.fence::text, l.acquired_at, l.expires_at, f.by, f.reason, f.frozen_at
    FROM (SELECT 1) AS always
    LEFT JOIN tenant_lock l ON l.tenant_id = p_tenant AND l.expires_at > v_now
    LEFT JOIN tenant_freeze f ON f.tenant_id = p_tenant;
    CASE p_what
        WHEN 'RELEASE' THEN DELETE FROM tenant_lock WHERE tenant_id = p_tenant;
        WHEN 'UNFREEZE' THEN DELETE FROM tenant_freeze WHERE tenant_id = p_tenant;
        WHEN 'FREEZE' THEN
            -- Who froze it first stays on record.
            INSERT INTO tenant_freeze (tenant_id, by, reason, frozen_at) VALUES (p_tenant, p_by, p_reason, v_now)
            ON CONFLICT (tenant_id) DO NOTHING;
    END CASE;
    PERFORM windlass_changed('locks');
END
$$;
