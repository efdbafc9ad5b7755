-- Jobs. A tenant of '' is none: such jobs take turns as if they had one of their own. Rows lie in the order of submission. What is
-- live is told from what has ended by `live`, because an index here cannot leave rows out.

CREATE TABLE IF NOT EXISTS async_tasks (
    seq              BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    task_id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    tenant_id        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    status           VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    payload          LONGTEXT,
    result           LONGTEXT,
    error            LONGTEXT,
    submitted_at     DATETIME(3) NOT NULL DEFAULT '1970-01-01 00:00:00',
    started_at       DATETIME(3),
    completed_at     DATETIME(3),
    version          BIGINT UNSIGNED NOT NULL,
    priority         TINYINT NOT NULL DEFAULT 0,
    -- Less is earlier: the priority, turned round.
    `rank`           SMALLINT NOT NULL DEFAULT 0,
    -- 1 is PENDING, and its time has come as far as somebody has looked; 2 is PENDING and waits for its time; 3 is RUNNING.
    live             TINYINT UNSIGNED,
    run_at           DATETIME(3) NOT NULL,
    -- When somebody must look at it: its time, or the end of its worker's lease.
    wake_at          DATETIME(3),
    attempt          INT UNSIGNED NOT NULL DEFAULT 0,
    max_attempts     INT UNSIGNED NOT NULL DEFAULT 1,
    deliveries       INT UNSIGNED NOT NULL DEFAULT 0,
    backoff_first_ms BIGINT UNSIGNED NOT NULL DEFAULT 0,
    backoff_max_ms   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    timeout_ms       BIGINT UNSIGNED,
    worker           VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    fence            BIGINT UNSIGNED NOT NULL DEFAULT 0,
    lease_until      DATETIME(3),
    -- Bytes: text that differs in spaces at its end is not the same key.
    `key`            VARBINARY(256),
    digest           BIGINT UNSIGNED NOT NULL DEFAULT 0,
    cancel           LONGTEXT,
    asked            LONGTEXT,
    -- The status of what has ended.
    ended_as         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
    UNIQUE KEY async_tasks_id (task_id),
    UNIQUE KEY async_tasks_key (queue, tenant_id, `key`),
    -- What a claim reads, in its order.
    KEY async_tasks_live (live, queue, tenant_id, `rank`, run_at),
    KEY async_tasks_wake (live, queue, wake_at, tenant_id),
    -- Lists and retention.
    KEY async_tasks_ended (ended_as, completed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Limits and holds. `scope` is queue, tenant, or each (tenant), which has no name.
CREATE TABLE IF NOT EXISTS job_rule (
    scope   VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    running INT UNSIGNED,
    waiting INT UNSIGNED,
    held    LONGTEXT,
    PRIMARY KEY (scope, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Which queues are asked by the workers of which process.
CREATE TABLE IF NOT EXISTS job_asker (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    asker CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    until DATETIME(3) NOT NULL,
    PRIMARY KEY (queue, asker)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Which jobs ended lately: for each shard of `change_mark` the newest transactions in which some did, numbered as its count. What is not
-- there any more shows as a gap in the numbers.
CREATE TABLE IF NOT EXISTS job_feed (
    shard TINYINT UNSIGNED NOT NULL,
    slot  TINYINT UNSIGNED NOT NULL,
    n     BIGINT UNSIGNED NOT NULL,
    -- Whose it is: that process knows already.
    teller CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- Ids without a space between; nothing if they were too many.
    ids   LONGTEXT CHARACTER SET ascii COLLATE ascii_bin,
    PRIMARY KEY (shard, slot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO change_mark (port, shard)
    SELECT port.name, a.n * 4 + b.n
    FROM (SELECT 'jobs' AS name UNION SELECT 'ended') AS port,
         (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS a,
         (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS b;
