-- State and locks. Ids are compared byte by byte (ascii_bin), other text too (utf8mb4_bin). Times are UTC, exact to the
-- millisecond. JSON is kept as text, so that what users wrote comes back as they wrote it; `JSON_EXTRACT(column, '$.…')` reads it.
-- The server commits every statement that defines something by itself: each can be repeated, so that a migration that was cut
-- off goes on where it was.

CREATE TABLE IF NOT EXISTS plan_state_projection (
    plan_id         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    name            TEXT NOT NULL,
    status          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    task_ids        LONGTEXT NOT NULL,
    tasks           INT UNSIGNED NOT NULL,
    max_concurrency INT UNSIGNED NOT NULL,
    on_failure      VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    on_conflict     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    recovery        VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    conductor       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    cancelled       TINYINT(1) NOT NULL,
    created_at      DATETIME(3) NOT NULL,
    started_at      DATETIME(3),
    updated_at      DATETIME(3) NOT NULL,
    ended_at        DATETIME(3),
    version         BIGINT UNSIGNED NOT NULL,
    seq             BIGINT UNSIGNED NOT NULL,
    KEY plan_by_status (status, created_at DESC, plan_id),
    KEY plan_ended (ended_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS plan_spec (
    plan_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    spec    LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS plan_event (
    plan_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq       BIGINT UNSIGNED NOT NULL,
    at        DATETIME(3) NOT NULL,
    tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    `by`      VARCHAR(128),
    reason    VARCHAR(1024),
    kind      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fact      LONGTEXT NOT NULL,
    PRIMARY KEY (plan_id, seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Plans that retention has removed and whose tasks are still to go. Their ids are not free before that.
CREATE TABLE IF NOT EXISTS plan_gone (
    plan_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A plain boundary changes no indexed column. It is written as an INSERT that meets a row that is there, which has to name every column
-- that has no default: those that it does not change have one for that alone.
CREATE TABLE IF NOT EXISTS task_state_projection (
    task_id            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    tenant_id          VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    plan_id            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    position           INT UNSIGNED NOT NULL DEFAULT 0,
    status             VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    pause_requested    TINYINT(1) NOT NULL DEFAULT 0,
    start_requested    TINYINT(1) NOT NULL DEFAULT 0,
    owner_asked        TINYINT(1) NOT NULL DEFAULT 0,
    -- What may be taken, by the order in which it is: 1 was asked for, 2 is PENDING and was claimed, 3 is PENDING.
    readiness          TINYINT UNSIGNED,
    control            LONGTEXT,
    owner              VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    fence              BIGINT UNSIGNED NOT NULL DEFAULT 0,
    -- It was its tenant's last to start, and another has written under a higher fence since.
    overtaken          TINYINT(1) NOT NULL DEFAULT 0,
    ready_at           DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
    created_at         DATETIME(3) NOT NULL,
    started_at         DATETIME(3),
    updated_at         DATETIME(3) NOT NULL,
    ended_at           DATETIME(3),
    detail             LONGTEXT NOT NULL,
    checkpoint_version BIGINT UNSIGNED NOT NULL DEFAULT 0,
    version            BIGINT UNSIGNED NOT NULL,
    seq                BIGINT UNSIGNED NOT NULL,
    op_id              VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    op_digest          BIGINT UNSIGNED,
    op_at              DATETIME(3),
    KEY task_by_status (status, created_at DESC, plan_id, position),
    KEY task_by_tenant (tenant_id, created_at DESC, plan_id, position),
    KEY task_by_plan (plan_id, created_at DESC, position, status),
    KEY task_ready (plan_id, readiness, ready_at, position),
    KEY task_slot (plan_id, owner),
    KEY task_asked (owner, owner_asked)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS task_spec (
    task_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    spec    LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS task_checkpoint (
    task_id                    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    version                    BIGINT UNSIGNED NOT NULL,
    last_completed_stage_index INT NOT NULL,
    saved_at                   DATETIME(3) NOT NULL,
    executor_instance          VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    fence                      BIGINT UNSIGNED NOT NULL,
    checkpoint                 LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Plan and tenant are those of the task.
CREATE TABLE IF NOT EXISTS task_event (
    task_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq     BIGINT UNSIGNED NOT NULL,
    at      DATETIME(3) NOT NULL,
    `by`    VARCHAR(128),
    reason  VARCHAR(1024),
    kind    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fact    LONGTEXT NOT NULL,
    PRIMARY KEY (task_id, seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A tenant as state sees it: the highest fence that has written, and its latest tasks. The fence is kept for ever.
CREATE TABLE IF NOT EXISTS tenant_state (
    tenant_id       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    fence           BIGINT UNSIGNED NOT NULL DEFAULT 0,
    latest_task_id  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    started_task_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS operation (
    op_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    digest  BIGINT UNSIGNED NOT NULL,
    version BIGINT UNSIGNED NOT NULL,
    seq     BIGINT UNSIGNED NOT NULL,
    at      DATETIME(3) NOT NULL,
    answer  LONGTEXT,
    KEY operation_age (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS instance (
    instance_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    up_since    DATETIME(3) NOT NULL,
    lease_until DATETIME(3) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenant_lock (
    tenant_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    plan_id     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    task_id     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fence       BIGINT UNSIGNED NOT NULL,
    acquired_at DATETIME(3) NOT NULL,
    expires_at  DATETIME(3) NOT NULL,
    KEY tenant_lock_expires (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tenant_freeze (
    tenant_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    `by`      VARCHAR(128) NOT NULL,
    reason    VARCHAR(1024),
    frozen_at DATETIME(3) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where fences are drawn: the server counts on from row to row, nobody waits for anybody, and whoever draws removes its row
-- again. It begins at the clock in µs, so that a store that was lost and begun anew hands out higher ones.
CREATE TABLE IF NOT EXISTS fence_counter (
    fence BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT INTO fence_counter (fence) VALUES (CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED));
DELETE FROM fence_counter;

-- How often something changed that somebody may be waiting for: the sum over a port's shards. Every connection counts in
-- a shard of its own, so that commits do not wait for each other here.
CREATE TABLE IF NOT EXISTS change_mark (
    port  VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    shard TINYINT UNSIGNED NOT NULL,
    n     BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (port, shard)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO change_mark (port, shard)
    SELECT port.name, a.n * 4 + b.n
    FROM (SELECT 'state' AS name UNION SELECT 'locks') AS port,
         (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS a,
         (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS b;
