-- The schema after all migrations: what a test compares with what they make. Not what is run; see migrations/.

SET check_function_bodies = off;

CREATE FUNCTION windlass_acquire(p_tenants text[], p_plans text[], p_tasks text[], p_ttl_ms bigint[], p_ahead_ms bigint) RETURNS TABLE(o_nth bigint, o_granted boolean, o_plan text, o_task text, o_fence text, o_since timestamp with time zone, o_until timestamp with time zone, o_by text, o_reason text, o_frozen_at timestamp with time zone)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_granted bigint;
    -- The fences of this call are larger than this; those that its tenants had before are not.
    v_base bigint;
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
    IF v_granted > 0 THEN
        PERFORM windlass_fence_forward();
        v_base := nextval('windlass_fence');
        UPDATE tenant_lock l SET fence = g.fence
        FROM (
            SELECT w.tenant_id, nextval('windlass_fence') AS fence
            FROM (
                SELECT w.tenant_id FROM unnest(p_tenants) WITH ORDINALITY AS w(tenant_id, nth)
                JOIN tenant_lock n ON n.tenant_id = ANY (ARRAY[w.tenant_id]) AND n.fence = 0
                ORDER BY w.nth
            ) w
        ) g
        WHERE l.tenant_id = ANY (ARRAY[g.tenant_id]);
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

CREATE FUNCTION windlass_asked(p_now timestamp with time zone, p_queues text[], p_lease_ms bigint[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO job_asker AS a (queue, shard, heard_at, until)
    SELECT g.queue, pg_backend_pid() % 16, p_now, windlass_later(p_now, g.ms)
    FROM unnest(p_queues, p_lease_ms) AS g(queue, ms) ORDER BY g.queue
    ON CONFLICT (queue, shard) DO UPDATE SET heard_at = excluded.heard_at, until = excluded.until;
END
$$;

CREATE FUNCTION windlass_boundary(p_ahead_ms bigint, p_tasks text[], p_tenants text[], p_plans text[], p_positions bigint[], p_created timestamp with time zone[], p_from text[], p_writers text[], p_fences text[], p_ops text[], p_digests bigint[], p_statuses text[], p_running boolean[], p_owners text[], p_task_fences text[], p_ready timestamp with time zone[], p_started timestamp with time zone[], p_updated timestamp with time zone[], p_ended timestamp with time zone[], p_details text[], p_events bigint[], p_ck_versions bigint[], p_ck_lasts integer[], p_ck_saved timestamp with time zone[], p_ck_instances text[], p_ck_bodies text[], p_ev_steps bigint[], p_ev_nths bigint[], p_ev_at timestamp with time zone[], p_ev_tasks text[], p_ev_plans text[], p_ev_tenants text[], p_ev_by text[], p_ev_reasons text[], p_ev_kinds text[], p_ev_facts text[]) RETURNS TABLE(o_step bigint, o_version bigint, o_seq bigint, o_control text, o_at timestamp with time zone, o_wakes boolean)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
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

CREATE FUNCTION windlass_changed(p_port text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE change_mark SET n = n + 1 WHERE port = p_port AND shard = pg_backend_pid() % 16;
END
$$;

CREATE FUNCTION windlass_claim(p_now timestamp with time zone, p_workers text[], p_leases bigint[], p_queues text[], p_wanted bigint[], p_after text[], p_slots integer[], p_asked bigint[]) RETURNS TABLE(o_what text, o_turn integer, o_nth integer, o_at timestamp with time zone, o_task_id uuid, o_queue text, o_tenant_id text, o_status text, o_payload text, o_result text, o_error text, o_submitted_at timestamp with time zone, o_started_at timestamp with time zone, o_completed_at timestamp with time zone, o_version bigint, o_seq bigint, o_priority smallint, o_run_at timestamp with time zone, o_attempt integer, o_max_attempts integer, o_deliveries integer, o_backoff_first_ms bigint, o_backoff_max_ms bigint, o_timeout_ms bigint, o_worker text, o_fence bigint, o_lease_until timestamp with time zone, o_key text, o_digest bigint, o_cancel text, o_asked text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_queue_rules boolean := EXISTS (SELECT 1 FROM job_rule WHERE scope = 'queue' AND name = ANY (p_queues));
    v_tenant_rules boolean := EXISTS (SELECT 1 FROM job_rule WHERE scope <> 'queue');
    v_rule record;
    v_queue text COLLATE "C";
    v_slot integer := 0;
    v_left bigint;      -- jobs still wanted of this queue
    v_room bigint;      -- jobs that may still begin in it
    v_goal bigint;      -- jobs to take in this round
    v_busy boolean := false;  -- somebody else was just counting a tenant
    v_short boolean := false;
    v_tenant text COLLATE "C";
    v_from text COLLATE "C";
    v_wrapped boolean;
    v_tenants text[];
    v_rooms bigint[];
    -- Where each tenant's first job stands, so that what was claimed before it is passed over once.
    v_priority integer;
    v_priorities integer[];
    v_run_at timestamptz;
    v_run_ats timestamptz[];
    v_seq bigint;
    v_seqs bigint[];
    v_open integer[];   -- places of the tenants that may have more
    v_again integer[];
    v_i integer;
    v_share bigint;
    v_got tid[];
    v_fresh bigint;
    v_ctids tid[];
    v_order bigint[];
BEGIN
    PERFORM windlass_asked(p_now, p_queues, p_asked);
    PERFORM windlass_fence_forward();
    IF v_queue_rules THEN
        -- Whoever counts what runs in a queue does so alone.
        PERFORM 1 FROM job_rule WHERE scope = 'queue' AND name = ANY (p_queues) AND running IS NOT NULL ORDER BY name FOR UPDATE;
    END IF;
    FOR v_q IN 1 .. cardinality(p_queues) LOOP
        v_queue := p_queues[v_q];
        v_left := p_wanted[v_q];
        v_room := 1000000;
        IF v_queue_rules THEN
            SELECT held, running INTO v_rule FROM job_rule WHERE scope = 'queue' AND name = v_queue;
            IF FOUND AND v_rule.held IS NOT NULL THEN
                v_slot := v_slot + v_left;
                v_short := true;
                CONTINUE;
            ELSIF FOUND THEN
                v_room := windlass_room('queue', v_queue, v_rule.running);
            END IF;
        END IF;

        -- What has waited for its time and need not any longer.
        IF EXISTS (SELECT 1 FROM async_tasks WHERE NOT ready AND status = 'PENDING' AND queue = v_queue AND run_at <= p_now) THEN
            UPDATE async_tasks SET ready = true WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM async_tasks WHERE NOT ready AND status = 'PENDING' AND queue = v_queue AND run_at <= p_now
                ORDER BY run_at LIMIT 10000 FOR UPDATE SKIP LOCKED));
        END IF;
        -- First what is delivered again: it has its slot already, so no limit stops it.
        v_ctids := ARRAY(
            SELECT ctid FROM async_tasks
            WHERE status = 'RUNNING' AND queue = v_queue AND lease_until <= p_now
              AND cancel IS NULL AND deliveries < 3 AND windlass_deadline(started_at, timeout_ms) > p_now
              AND (NOT v_tenant_rules OR NOT windlass_held(tenant_id))
            ORDER BY lease_until LIMIT v_left FOR UPDATE SKIP LOCKED);
        v_order := ARRAY(SELECT generate_series(1, cardinality(v_ctids)));
        v_goal := v_left;

        -- Tenants that have something, once around the ring, as many as there are jobs wanted. No name holds a '!'.
        v_tenants := '{}';
        v_rooms := '{}';
        v_priorities := '{}';
        v_run_ats := '{}';
        v_seqs := '{}';
        v_from := p_after[v_q];
        v_wrapped := v_from = '';
        WHILE v_room > 0 AND cardinality(v_ctids) + cardinality(v_tenants) < v_left LOOP
            SELECT tenant_id, -priority, run_at, seq INTO v_tenant, v_priority, v_run_at, v_seq FROM async_tasks
            WHERE ready AND status = 'PENDING' AND queue = v_queue AND tenant_id >= v_from AND run_at <= p_now
            ORDER BY tenant_id, -priority, run_at, seq LIMIT 1;
            IF v_tenant IS NULL OR (v_wrapped AND p_after[v_q] <> '' AND v_tenant >= p_after[v_q]) THEN
                EXIT WHEN v_wrapped;
                v_wrapped := true;
                v_from := '';
                CONTINUE;
            END IF;
            v_from := v_tenant || '!';
            v_fresh := v_room;
            IF v_tenant_rules AND v_tenant <> '' THEN
                SELECT coalesce(own.held, each.held) IS NOT NULL AS held,
                       CASE WHEN own.running IS NULL AND own.waiting IS NULL THEN each.running ELSE own.running END AS running
                INTO v_rule
                FROM (SELECT 1) AS always
                LEFT JOIN job_rule own ON own.scope = 'tenant' AND own.name = v_tenant
                LEFT JOIN job_rule each ON each.scope = 'each' AND each.name = '';
                IF v_rule.held THEN
                    CONTINUE;
                END IF;
                IF v_rule.running IS NOT NULL THEN
                    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.' || v_tenant, 8317427601942570612)) THEN
                        v_busy := true;
                        CONTINUE;
                    END IF;
                    v_fresh := least(v_room, windlass_room('tenant', v_tenant, v_rule.running));
                END IF;
            END IF;
            CONTINUE WHEN v_fresh <= 0;
            v_tenants := v_tenants || v_tenant::text;
            v_rooms := v_rooms || v_fresh;
            v_priorities := v_priorities || v_priority;
            v_run_ats := v_run_ats || v_run_at;
            v_seqs := v_seqs || v_seq;
        END LOOP;

        -- Each gets its share; what some leave is shared by those who have more.
        v_open := ARRAY(SELECT generate_series(1, cardinality(v_tenants)));
        LOOP
            IF v_ctids = '{}' AND v_left > 0 AND v_room > 0 AND v_open <> '{}' THEN
                v_goal := least(v_left, v_room);
                v_share := (v_goal + cardinality(v_open) - 1) / cardinality(v_open);
                v_again := '{}';
                FOR v_t IN 1 .. cardinality(v_open) LOOP
                    v_i := v_open[v_t];
                    v_tenant := v_tenants[v_i];
                    v_fresh := least(v_share, v_rooms[v_i]);
                    v_got := ARRAY(
                        SELECT ctid FROM async_tasks
                        WHERE ready AND status = 'PENDING' AND queue = v_queue AND tenant_id = v_tenant AND run_at <= p_now
                          AND (-priority, run_at, seq) >= (v_priorities[v_i], v_run_ats[v_i], v_seqs[v_i])
                        ORDER BY -priority, run_at, seq LIMIT v_fresh FOR UPDATE SKIP LOCKED);
                    v_fresh := cardinality(v_got);
                    v_order := v_order || ARRAY(SELECT nth * cardinality(v_open) + v_t FROM generate_series(1, v_fresh) AS nth);
                    v_ctids := v_ctids || v_got;
                    v_rooms[v_i] := v_rooms[v_i] - v_fresh;
                    IF v_fresh = v_share AND v_rooms[v_i] > 0 THEN
                        v_again := v_again || v_i;
                    END IF;
                END LOOP;
                v_open := v_again;
                v_room := v_room - least(v_goal, cardinality(v_ctids));
            END IF;
            EXIT WHEN v_ctids = '{}';
            RETURN QUERY
            UPDATE async_tasks t
            SET status = 'RUNNING', attempt = t.attempt + (t.status = 'PENDING')::integer, deliveries = t.deliveries + 1,
                worker = p_workers[p_slots[p.slot]], fence = nextval('windlass_fence'), version = t.version + 1,
                started_at = greatest(p_now, t.submitted_at), lease_until = windlass_later(p_now, p_leases[p_slots[p.slot]])
            FROM (
                SELECT g.id, v_slot + row_number() OVER (ORDER BY g.place) AS slot FROM unnest(v_ctids, v_order) AS g(id, place)
                ORDER BY g.place LIMIT v_goal
            ) p
            WHERE t.ctid = p.id
            RETURNING 'JOB', p_slots[p.slot], p.slot::integer, NULL::timestamptz,
                t.task_id, t.queue, t.tenant_id, t.status, t.payload, t.result, t.error, t.submitted_at,
                t.started_at, t.completed_at, t.version, t.seq, t.priority, t.run_at, t.attempt, t.max_attempts,
                t.deliveries, t.backoff_first_ms, t.backoff_max_ms, t.timeout_ms, t.worker, t.fence, t.lease_until,
                t.key, t.digest, t.cancel, t.asked;
            v_slot := v_slot + least(v_goal, cardinality(v_ctids));
            v_left := v_left - least(v_goal, cardinality(v_ctids));
            v_ctids := '{}';
            v_order := '{}';
        END LOOP;
        v_slot := v_slot + v_left;
        v_short := v_short OR v_left > 0;
    END LOOP;
    IF v_short THEN
        o_what := 'NEXT';
        FOR v_q IN 1 .. cardinality(p_queues) LOOP
            o_nth := v_q;
            o_at := least(
                CASE WHEN v_busy THEN p_now + interval '1 millisecond' END,
                (SELECT run_at FROM async_tasks WHERE NOT ready AND status = 'PENDING' AND queue = p_queues[v_q] AND run_at > p_now
                 ORDER BY run_at LIMIT 1),
                -- Somebody whose clock is ahead has found these ready; or the clock went back.
                (SELECT min(run_at) FROM (
                    SELECT run_at FROM async_tasks WHERE ready AND status = 'PENDING' AND queue = p_queues[v_q] LIMIT 100) r
                 WHERE run_at > p_now),
                (SELECT lease_until FROM async_tasks WHERE status = 'RUNNING' AND queue = p_queues[v_q] AND lease_until > p_now
                 ORDER BY lease_until LIMIT 1));
            RETURN NEXT;
        END LOOP;
    END IF;
END
$$;

CREATE TABLE triggers (
    id text NOT NULL COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    tenant_id text COLLATE pg_catalog."C",
    status text NOT NULL,
    trigger_at timestamp(3) with time zone NOT NULL,
    try_at timestamp(3) with time zone NOT NULL,
    wake_at timestamp(3) with time zone,
    owner text COLLATE pg_catalog."C",
    lease_until timestamp(3) with time zone,
    fence bigint NOT NULL,
    retry_count bigint NOT NULL,
    held boolean NOT NULL,
    paused text,
    schedule text NOT NULL,
    target text NOT NULL,
    payload text,
    misfire text NOT NULL,
    recovery text NOT NULL,
    overlap text NOT NULL,
    max_retries bigint NOT NULL,
    backoff_first_ms bigint NOT NULL,
    backoff_max_ms bigint NOT NULL,
    error text,
    made text,
    saved_at timestamp(3) with time zone NOT NULL,
    ended_at timestamp(3) with time zone,
    version bigint NOT NULL,
    notes bigint NOT NULL,
    asked boolean NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05');

CREATE FUNCTION windlass_claim_triggers(p_owner text, p_lease_ms bigint, p_limit bigint, p_ahead_ms bigint) RETURNS TABLE(o_nth bigint, o_at timestamp with time zone, o_since timestamp with time zone, o_next timestamp with time zone, o_trigger triggers)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION windlass_counted(p_port text, p_n bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE change_mark SET n = n + p_n WHERE port = p_port AND shard = pg_backend_pid() % 16;
END
$$;

CREATE FUNCTION windlass_deadline(started_at timestamp with time zone, timeout_ms bigint) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(started_at + timeout_ms * interval '1 millisecond', 'infinity')
$$;

CREATE FUNCTION windlass_ended(p_n bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM windlass_counted('ended', p_n);
    IF EXISTS (SELECT 1 FROM job_rule WHERE running IS NOT NULL) THEN
        PERFORM windlass_counted('jobs', 1);
        RETURN true;
    END IF;
    RETURN false;
END
$$;

CREATE FUNCTION windlass_fence_forward() RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_clock bigint := trunc(extract(epoch FROM clock_timestamp()) * 1000000);
BEGIN
    IF pg_sequence_last_value('windlass_fence') < v_clock THEN
        PERFORM pg_advisory_xact_lock(8317427601942570611);
        IF pg_sequence_last_value('windlass_fence') < v_clock THEN
            PERFORM setval('windlass_fence', v_clock + 1000000);
        END IF;
    END IF;
END
$$;

CREATE FUNCTION windlass_force(p_tenant text, p_what text, p_by text, p_reason text, p_ahead_ms bigint) RETURNS TABLE(o_plan text, o_task text, o_fence text, o_since timestamp with time zone, o_until timestamp with time zone, o_by text, o_reason text, o_frozen_at timestamp with time zone)
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION windlass_held(p_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT p_tenant <> '' AND EXISTS (
        SELECT 1 FROM job_rule WHERE held IS NOT NULL AND ((scope = 'tenant' AND name = p_tenant) OR (scope = 'each' AND name = '')))
$$;

CREATE FUNCTION windlass_later(at timestamp with time zone, ms bigint) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT least(date_trunc('milliseconds', at + ms * interval '1 millisecond'), timestamptz '9999-12-30 00:00:00+00')
$$;

CREATE FUNCTION windlass_now(ahead_ms bigint) RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$
    SELECT windlass_later(clock_timestamp(), ahead_ms)
$$;

CREATE FUNCTION windlass_purge(p_before timestamp with time zone, p_limit bigint, p_ahead_ms bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION windlass_queues(p_after text, p_limit bigint, p_depth bigint, p_ahead_ms bigint) RETURNS TABLE(o_queue text, o_waiting bigint, o_running bigint, o_oldest timestamp with time zone, o_until timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := windlass_now(p_ahead_ms);
    v_queue text COLLATE "C" := p_after;
BEGIN
    FOR v_n IN 1 .. p_limit LOOP
        v_queue := least(
            (SELECT queue FROM async_tasks WHERE ready AND status = 'PENDING' AND queue > v_queue ORDER BY queue LIMIT 1),
            (SELECT queue FROM async_tasks WHERE NOT ready AND status = 'PENDING' AND queue > v_queue ORDER BY queue LIMIT 1),
            (SELECT queue FROM async_tasks WHERE status = 'RUNNING' AND queue > v_queue ORDER BY queue LIMIT 1),
            (SELECT name FROM job_rule WHERE scope = 'queue' AND name > v_queue ORDER BY name LIMIT 1),
            (SELECT queue FROM job_asker WHERE queue > v_queue AND until > v_now ORDER BY queue LIMIT 1));
        EXIT WHEN v_queue IS NULL;
        o_queue := v_queue;
        o_waiting := windlass_waiting('queue', v_queue, p_depth);
        o_running := (SELECT count(*) FROM (SELECT 1 FROM async_tasks WHERE status = 'RUNNING' AND queue = v_queue LIMIT p_depth) r);
        o_oldest := least(
            (SELECT min(run_at) FROM (
                SELECT run_at FROM async_tasks WHERE ready AND status = 'PENDING' AND queue = v_queue AND run_at <= v_now LIMIT p_depth) r),
            (SELECT run_at FROM async_tasks WHERE NOT ready AND status = 'PENDING' AND queue = v_queue AND run_at <= v_now
             ORDER BY run_at LIMIT 1));
        o_until := (SELECT max(until) FROM job_asker WHERE queue = v_queue AND until > v_now);
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION windlass_room(p_scope text, p_name text, p_running bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    IF p_running IS NULL THEN
        RETURN 1000000;
    ELSIF p_scope = 'queue' THEN
        RETURN p_running - (SELECT count(*) FROM (
            SELECT 1 FROM async_tasks WHERE status = 'RUNNING' AND queue = p_name LIMIT p_running) r);
    ELSE
        RETURN p_running - (SELECT count(*) FROM (
            SELECT 1 FROM async_tasks WHERE completed_at IS NULL AND tenant_id <> '' AND tenant_id = p_name
              AND status = 'RUNNING' LIMIT p_running) r);
    END IF;
END
$$;

CREATE FUNCTION windlass_settle_triggers(p_ids text[], p_fences bigint[], p_statuses text[], p_trigger_at timestamp with time zone[], p_try_at timestamp with time zone[], p_retry_counts bigint[], p_held boolean[], p_errors text[], p_made text[], p_ended_at timestamp with time zone[], p_notes bigint[], p_n_steps bigint[], p_n_nths bigint[], p_n_at timestamp with time zone[], p_n_occurrences timestamp with time zone[], p_n_what text[], p_asked boolean[]) RETURNS TABLE(o_step bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION windlass_submit(p_ahead_ms bigint, p_judged boolean, p_groups integer[], p_ids uuid[], p_queues text[], p_tenants text[], p_payloads text[], p_priorities smallint[], p_delays bigint[], p_at timestamp with time zone[], p_max_attempts integer[], p_backoff_first bigint[], p_backoff_max bigint[], p_timeouts bigint[], p_keys text[], p_digests bigint[]) RETURNS TABLE(o_group integer, o_count bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := windlass_now(p_ahead_ms);
    v_left integer[] := '{}';
BEGIN
    IF NOT p_judged THEN
        v_left := ARRAY(
            SELECT g.nth FROM unnest(p_groups, p_ids) AS g(nth, id) JOIN async_tasks t ON t.task_id = ANY (ARRAY[g.id])
            UNION
            -- One lookup for each, whatever statistics say: where no job had a key so far, a join would read all that have
            -- one now.
            SELECT g.nth FROM unnest(p_groups, p_queues, p_tenants, p_keys) AS g(nth, queue, tenant_id, key)
            WHERE g.key IS NOT NULL AND (
                SELECT true FROM async_tasks t
                WHERE t.queue = g.queue AND t.tenant_id = g.tenant_id AND t.key = g.key AND t.key IS NOT NULL LIMIT 1));
        IF EXISTS (SELECT 1 FROM job_rule WHERE waiting IS NOT NULL) THEN
            v_left := v_left || ARRAY(
                SELECT g.nth FROM unnest(p_groups, p_queues, p_tenants) AS g(nth, queue, tenant_id)
                WHERE EXISTS (
                    SELECT 1 FROM job_rule r WHERE r.waiting IS NOT NULL AND (
                        (r.scope = 'queue' AND r.name = g.queue) OR (r.scope = 'tenant' AND r.name = g.tenant_id)
                        OR (r.scope = 'each' AND g.tenant_id <> ''))));
        END IF;
    END IF;
    INSERT INTO async_tasks (
        task_id, queue, tenant_id, status, payload, submitted_at, version, priority, ready, run_at, max_attempts,
        backoff_first_ms, backoff_max_ms, timeout_ms, key, digest)
    SELECT g.id, g.queue, g.tenant_id, 'PENDING', g.payload, v_now, 1, g.priority, g.run_at <= v_now, g.run_at, g.max_attempts,
           g.backoff_first, g.backoff_max, g.timeout, g.key, g.digest
    FROM (
        SELECT u.*, greatest(v_now, coalesce(u.at, windlass_later(v_now, u.delay))) AS run_at
        FROM unnest(
            p_groups, p_ids, p_queues, p_tenants, p_payloads, p_priorities, p_delays, p_at, p_max_attempts, p_backoff_first,
            p_backoff_max, p_timeouts, p_keys, p_digests
        ) WITH ORDINALITY AS u(
            nth, id, queue, tenant_id, payload, priority, delay, at, max_attempts, backoff_first, backoff_max, timeout, key,
            digest, place
        )
        WHERE NOT u.nth = ANY (v_left) ORDER BY u.place
    ) g;
    IF FOUND THEN
        PERFORM windlass_counted('jobs', 1);
        SELECT sum(n) INTO o_count FROM change_mark WHERE port = 'jobs';
        RETURN NEXT;
    END IF;
    RETURN QUERY SELECT DISTINCT l, NULL::bigint FROM unnest(v_left) AS l;
END
$$;

CREATE TABLE task_state_projection (
    task_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    plan_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    status text NOT NULL,
    pause_requested boolean DEFAULT false NOT NULL,
    start_requested boolean DEFAULT false NOT NULL,
    owner_asked boolean DEFAULT false NOT NULL,
    control text,
    owner text COLLATE pg_catalog."C",
    fence numeric(20,0) NOT NULL,
    ready_at timestamp(3) with time zone NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    started_at timestamp(3) with time zone,
    updated_at timestamp(3) with time zone NOT NULL,
    ended_at timestamp(3) with time zone,
    detail text NOT NULL,
    checkpoint_version bigint DEFAULT 0 NOT NULL,
    version bigint NOT NULL,
    seq bigint NOT NULL,
    op_id text COLLATE pg_catalog."C",
    op_digest bigint,
    op_at timestamp(3) with time zone
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05');

CREATE FUNCTION windlass_take(p_instance text, p_plan text, p_limit bigint, p_waits boolean, p_ahead_ms bigint) RETURNS TABLE(o_verdict text, o_task task_state_projection)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
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

CREATE FUNCTION windlass_turn(p_ahead_ms bigint, p_workers text[], p_leases bigint[], p_s_turns integer[], p_s_ids uuid[], p_s_fences bigint[], p_s_results text[], p_b_turns integer[], p_b_ids uuid[], p_b_fences bigint[], p_queues text[], p_wanted bigint[], p_after text[], p_slots integer[], p_asked bigint[]) RETURNS TABLE(o_what text, o_turn integer, o_nth integer, o_at timestamp with time zone, o_task_id uuid, o_queue text, o_tenant_id text, o_status text, o_payload text, o_result text, o_error text, o_submitted_at timestamp with time zone, o_started_at timestamp with time zone, o_completed_at timestamp with time zone, o_version bigint, o_seq bigint, o_priority smallint, o_run_at timestamp with time zone, o_attempt integer, o_max_attempts integer, o_deliveries integer, o_backoff_first_ms bigint, o_backoff_max_ms bigint, o_timeout_ms bigint, o_worker text, o_fence bigint, o_lease_until timestamp with time zone, o_key text, o_digest bigint, o_cancel text, o_asked text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := windlass_now(p_ahead_ms);
    v_done bigint;
    v_room boolean := false;
BEGIN
    o_at := v_now;
    o_what := 'LEFT';
    IF p_s_ids <> '{}' OR p_b_ids <> '{}' THEN
        FOR o_turn IN
            SELECT g.turn FROM unnest(p_s_turns, p_s_ids, p_s_fences) AS g(turn, id, fence)
            LEFT JOIN async_tasks t ON t.task_id = g.id
            WHERE (t.status = 'RUNNING' AND t.fence = g.fence) IS NOT TRUE
            UNION
            SELECT g.turn FROM unnest(p_b_turns, p_b_ids, p_b_fences) AS g(turn, id, fence)
            LEFT JOIN async_tasks t ON t.task_id = g.id
            WHERE (t.status = 'RUNNING' AND t.fence = g.fence AND windlass_deadline(t.started_at, t.timeout_ms) > v_now) IS NOT TRUE
        LOOP
            RETURN NEXT;
        END LOOP;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF EXISTS (
        SELECT 1 FROM async_tasks t WHERE status = 'RUNNING' AND queue = ANY (p_queues) AND lease_until <= v_now
          AND NOT EXISTS (SELECT 1 FROM job_rule r WHERE r.scope = 'queue' AND r.name = t.queue AND r.held IS NOT NULL)
          AND (cancel IS NOT NULL OR deliveries >= 3 OR windlass_deadline(started_at, timeout_ms) <= v_now)
    ) THEN
        o_what := 'JUDGE';
        RETURN NEXT;
        RETURN;
    END IF;

    IF p_s_ids <> '{}' THEN
        UPDATE async_tasks t
        SET status = 'COMPLETED', result = g.result, error = NULL, completed_at = greatest(v_now, t.started_at), worker = NULL,
            deliveries = 0, lease_until = NULL, cancel = NULL, version = t.version + 1
        FROM unnest(p_s_ids, p_s_fences, p_s_results) AS g(id, fence, result)
        -- What runs has a worker. Said so, because by its status it would be looked for among all that run.
        WHERE t.task_id = ANY (ARRAY[g.id]) AND t.worker IS NOT NULL AND t.fence = g.fence;
        GET DIAGNOSTICS v_done = ROW_COUNT;
        IF v_done <> cardinality(p_s_ids) THEN
            RAISE SQLSTATE '40001' USING MESSAGE = 'a job changed hands while it was settled';
        END IF;
        v_room := windlass_ended(v_done);
    END IF;
    IF p_b_ids <> '{}' THEN
        o_what := 'BEAT';
        v_done := 0;
        FOR o_turn, o_nth IN
            UPDATE async_tasks t SET lease_until = windlass_later(v_now, p_leases[g.turn]), version = t.version + 1
            FROM unnest(p_b_turns, p_b_ids, p_b_fences) WITH ORDINALITY AS g(turn, id, fence, nth)
            WHERE t.task_id = ANY (ARRAY[g.id]) AND t.worker IS NOT NULL AND t.fence = g.fence
            RETURNING g.turn, CASE WHEN t.cancel IS NULL THEN 0 ELSE g.nth END
        LOOP
            v_done := v_done + 1;
            IF o_nth > 0 THEN
                RETURN NEXT;
            END IF;
        END LOOP;
        IF v_done <> cardinality(p_b_ids) THEN
            RAISE SQLSTATE '40001' USING MESSAGE = 'a job changed hands while it was kept';
        END IF;
    END IF;
    o_what := 'TURN';
    o_nth := v_room::integer;
    RETURN NEXT;
    IF p_queues <> '{}' THEN
        RETURN QUERY SELECT * FROM windlass_claim(v_now, p_workers, p_leases, p_queues, p_wanted, p_after, p_slots, p_asked);
    END IF;
END
$$;

CREATE FUNCTION windlass_waiting(p_scope text, p_name text, p_limit bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET jit TO 'off'
    AS $$
BEGIN
    IF p_scope = 'queue' THEN
        RETURN least(p_limit,
            (SELECT count(*) FROM (SELECT 1 FROM async_tasks WHERE ready AND status = 'PENDING' AND queue = p_name LIMIT p_limit) r)
            + (SELECT count(*) FROM (SELECT 1 FROM async_tasks WHERE NOT ready AND status = 'PENDING' AND queue = p_name LIMIT p_limit) d));
    END IF;
    RETURN (SELECT count(*) FROM (
        SELECT 1 FROM async_tasks WHERE completed_at IS NULL AND tenant_id <> '' AND tenant_id = p_name AND status = 'PENDING'
        LIMIT p_limit) t);
END
$$;

CREATE FUNCTION windlass_waiting_limits(p_queues text[], p_tenants text[]) RETURNS TABLE(o_scope text, o_name text, o_limit bigint, o_waiting bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    FOR o_scope, o_name, o_limit IN
        SELECT r.scope, r.name, r.waiting FROM job_rule r
        WHERE r.scope = 'queue' AND r.name = ANY (p_queues) AND r.waiting IS NOT NULL
        UNION
        SELECT 'tenant', g.name, CASE WHEN own.running IS NULL AND own.waiting IS NULL THEN each.waiting ELSE own.waiting END
        FROM unnest(p_tenants) AS g(name)
        LEFT JOIN job_rule own ON own.scope = 'tenant' AND own.name = g.name
        LEFT JOIN job_rule each ON each.scope = 'each' AND each.name = ''
        ORDER BY 1, 2
    LOOP
        CONTINUE WHEN o_limit IS NULL;
        PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.' || o_scope || '.' || o_name, 8317427601942570613));
        o_waiting := windlass_waiting(o_scope, o_name, o_limit);
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE TABLE async_tasks (
    task_id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    tenant_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL,
    payload text,
    result text,
    error text,
    submitted_at timestamp(3) with time zone NOT NULL,
    started_at timestamp(3) with time zone,
    completed_at timestamp(3) with time zone,
    version bigint NOT NULL,
    seq bigint NOT NULL,
    priority smallint NOT NULL,
    ready boolean NOT NULL,
    run_at timestamp(3) with time zone NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    max_attempts integer NOT NULL,
    deliveries integer DEFAULT 0 NOT NULL,
    backoff_first_ms bigint NOT NULL,
    backoff_max_ms bigint NOT NULL,
    timeout_ms bigint,
    worker text COLLATE pg_catalog."C",
    fence bigint DEFAULT 0 NOT NULL,
    lease_until timestamp(3) with time zone,
    key text COLLATE pg_catalog."C",
    digest bigint NOT NULL,
    cancel text,
    asked text,
    CONSTRAINT async_tasks_record CHECK (
CASE status
    WHEN 'PENDING'::text THEN ((completed_at IS NULL) AND (result IS NULL) AND (worker IS NULL))
    WHEN 'RUNNING'::text THEN ((completed_at IS NULL) AND (result IS NULL) AND (worker IS NOT NULL) AND (started_at IS NOT NULL))
    WHEN 'COMPLETED'::text THEN ((completed_at IS NOT NULL) AND (result IS NOT NULL))
    WHEN 'FAILED'::text THEN ((completed_at IS NOT NULL) AND (error IS NOT NULL))
    WHEN 'CANCELLED'::text THEN ((completed_at IS NOT NULL) AND (result IS NULL) AND (error IS NULL))
    ELSE false
END),
    CONSTRAINT async_tasks_times CHECK (((started_at >= submitted_at) AND (completed_at >= COALESCE(started_at, submitted_at))))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_analyze_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');

ALTER TABLE async_tasks ALTER COLUMN seq ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME async_tasks_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE change_mark (
    port text NOT NULL,
    shard integer NOT NULL,
    n bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='10');

CREATE TABLE instance (
    instance_id text NOT NULL COLLATE pg_catalog."C",
    up_since timestamp(3) with time zone NOT NULL,
    lease_until timestamp(3) with time zone NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE job_asker (
    queue text NOT NULL COLLATE pg_catalog."C",
    shard integer NOT NULL,
    heard_at timestamp(3) with time zone NOT NULL,
    until timestamp(3) with time zone NOT NULL
)
WITH (fillfactor='10');

CREATE TABLE job_rule (
    scope text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    running bigint,
    waiting bigint,
    held text
);

CREATE TABLE operation (
    op_id text NOT NULL COLLATE pg_catalog."C",
    digest bigint NOT NULL,
    version bigint NOT NULL,
    seq bigint NOT NULL,
    at timestamp(3) with time zone NOT NULL,
    answer text
);

CREATE TABLE plan_event (
    plan_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    at timestamp(3) with time zone NOT NULL,
    tenant_id text COLLATE pg_catalog."C",
    by text,
    reason text,
    kind text NOT NULL,
    fact text NOT NULL
);

CREATE TABLE plan_gone (
    plan_id text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE plan_spec (
    plan_id text NOT NULL COLLATE pg_catalog."C",
    spec text NOT NULL
);

CREATE TABLE plan_state_projection (
    plan_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    status text NOT NULL,
    task_ids text DEFAULT '[]'::text NOT NULL,
    tasks bigint NOT NULL,
    max_concurrency bigint NOT NULL,
    on_failure text NOT NULL,
    on_conflict text NOT NULL,
    recovery text NOT NULL,
    conductor text COLLATE pg_catalog."C",
    cancelled boolean NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    started_at timestamp(3) with time zone,
    updated_at timestamp(3) with time zone NOT NULL,
    ended_at timestamp(3) with time zone,
    version bigint NOT NULL,
    seq bigint NOT NULL
);

CREATE TABLE scheduler_life (
    one boolean DEFAULT true NOT NULL,
    since timestamp(3) with time zone NOT NULL,
    until timestamp(3) with time zone NOT NULL,
    CONSTRAINT scheduler_life_one_check CHECK (one)
)
WITH (fillfactor='10');

CREATE TABLE task_checkpoint (
    task_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    last_completed_stage_index integer NOT NULL,
    saved_at timestamp(3) with time zone NOT NULL,
    executor_instance text COLLATE pg_catalog."C",
    fence numeric(20,0) NOT NULL,
    checkpoint text NOT NULL
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05');

CREATE TABLE task_event (
    task_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    at timestamp(3) with time zone NOT NULL,
    plan_id text NOT NULL COLLATE pg_catalog."C",
    tenant_id text COLLATE pg_catalog."C",
    by text,
    reason text,
    kind text NOT NULL,
    fact text NOT NULL
);

CREATE TABLE task_spec (
    task_id text NOT NULL COLLATE pg_catalog."C",
    spec text NOT NULL
);

CREATE TABLE tenant_freeze (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    by text NOT NULL,
    reason text,
    frozen_at timestamp(3) with time zone NOT NULL
);

CREATE TABLE tenant_lock (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    plan_id text NOT NULL COLLATE pg_catalog."C",
    task_id text NOT NULL COLLATE pg_catalog."C",
    fence numeric(20,0) NOT NULL,
    acquired_at timestamp(3) with time zone NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL
)
WITH (fillfactor='60');

CREATE TABLE tenant_state (
    tenant_id text NOT NULL COLLATE pg_catalog."C",
    fence numeric(20,0) DEFAULT 0 NOT NULL,
    latest_task_id text COLLATE pg_catalog."C",
    started_task_id text COLLATE pg_catalog."C"
)
WITH (fillfactor='60');

CREATE TABLE trigger_note (
    trigger_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    at timestamp(3) with time zone NOT NULL,
    occurrence timestamp(3) with time zone NOT NULL,
    what text NOT NULL
);

CREATE SEQUENCE windlass_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE windlass_migration (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp(3) with time zone NOT NULL
);

ALTER TABLE ONLY async_tasks
    ADD CONSTRAINT async_tasks_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY change_mark
    ADD CONSTRAINT change_mark_pkey PRIMARY KEY (port, shard);

ALTER TABLE ONLY instance
    ADD CONSTRAINT instance_pkey PRIMARY KEY (instance_id);

ALTER TABLE ONLY job_asker
    ADD CONSTRAINT job_asker_pkey PRIMARY KEY (queue, shard);

ALTER TABLE ONLY job_rule
    ADD CONSTRAINT job_rule_pkey PRIMARY KEY (scope, name);

ALTER TABLE ONLY operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (op_id);

ALTER TABLE ONLY plan_event
    ADD CONSTRAINT plan_event_pkey PRIMARY KEY (plan_id, seq);

ALTER TABLE ONLY plan_gone
    ADD CONSTRAINT plan_gone_pkey PRIMARY KEY (plan_id);

ALTER TABLE ONLY plan_spec
    ADD CONSTRAINT plan_spec_pkey PRIMARY KEY (plan_id);

ALTER TABLE ONLY plan_state_projection
    ADD CONSTRAINT plan_state_projection_pkey PRIMARY KEY (plan_id);

ALTER TABLE ONLY scheduler_life
    ADD CONSTRAINT scheduler_life_pkey PRIMARY KEY (one);

ALTER TABLE ONLY task_checkpoint
    ADD CONSTRAINT task_checkpoint_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY task_event
    ADD CONSTRAINT task_event_pkey PRIMARY KEY (task_id, seq);

ALTER TABLE ONLY task_spec
    ADD CONSTRAINT task_spec_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY task_state_projection
    ADD CONSTRAINT task_state_projection_pkey PRIMARY KEY (task_id);

ALTER TABLE ONLY tenant_freeze
    ADD CONSTRAINT tenant_freeze_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY tenant_lock
    ADD CONSTRAINT tenant_lock_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY tenant_state
    ADD CONSTRAINT tenant_state_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY trigger_note
    ADD CONSTRAINT trigger_note_pkey PRIMARY KEY (trigger_id, seq);

ALTER TABLE ONLY triggers
    ADD CONSTRAINT triggers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY windlass_migration
    ADD CONSTRAINT windlass_migration_pkey PRIMARY KEY (number);

CREATE INDEX async_tasks_delayed ON async_tasks USING btree (queue, run_at) WHERE ((NOT ready) AND (status = 'PENDING'::text));

CREATE INDEX async_tasks_delayed_list ON async_tasks USING btree (queue, tenant_id, ((- priority)), run_at, seq) WHERE ((NOT ready) AND (status = 'PENDING'::text));

CREATE INDEX async_tasks_ended ON async_tasks USING btree (status, completed_at DESC, seq DESC) WHERE (completed_at IS NOT NULL);

CREATE UNIQUE INDEX async_tasks_key ON async_tasks USING btree (queue, tenant_id, key) WHERE (key IS NOT NULL);

CREATE INDEX async_tasks_ready ON async_tasks USING btree (queue, tenant_id, ((- priority)), run_at, seq) WHERE (ready AND (status = 'PENDING'::text));

CREATE INDEX async_tasks_running ON async_tasks USING btree (queue, lease_until) WHERE (status = 'RUNNING'::text);

CREATE INDEX async_tasks_tenant ON async_tasks USING btree (tenant_id, status) WHERE ((completed_at IS NULL) AND (tenant_id <> ''::text));

CREATE INDEX operation_age ON operation USING btree (at);

CREATE INDEX plan_by_status ON plan_state_projection USING btree (status, created_at DESC, plan_id);

CREATE INDEX plan_ended ON plan_state_projection USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX task_asked ON task_state_projection USING btree (owner, task_id) WHERE owner_asked;

CREATE INDEX task_by_plan ON task_state_projection USING btree (plan_id, created_at DESC, "position");

CREATE INDEX task_by_status ON task_state_projection USING btree (status, created_at DESC, plan_id, "position");

CREATE INDEX task_by_tenant ON task_state_projection USING btree (tenant_id, created_at DESC, plan_id, "position");

CREATE INDEX task_ready ON task_state_projection USING btree (plan_id, ready_at, "position") WHERE (start_requested OR (status = 'PENDING'::text));

CREATE INDEX task_slot ON task_state_projection USING btree (plan_id) WHERE (owner IS NOT NULL);

CREATE INDEX tenant_lock_expires ON tenant_lock USING btree (expires_at);

CREATE INDEX trigger_due ON triggers USING btree (wake_at, id) WHERE (wake_at IS NOT NULL);

CREATE INDEX trigger_ended ON triggers USING btree (ended_at, id) WHERE (status = 'COMPLETED'::text);

CREATE INDEX trigger_waiting ON triggers USING btree (id) WHERE (held OR (status = 'DEAD'::text));
