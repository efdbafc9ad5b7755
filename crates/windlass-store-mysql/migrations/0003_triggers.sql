-- Triggers. JSON is kept as text, so that what users wrote comes back as they wrote it.

CREATE TABLE IF NOT EXISTS triggers (
    id               VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    parent_id        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    tenant_id        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    status           VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- The occurrence; when it is tried; when somebody must look at it: its time, or the end of its owner's lease.
    trigger_at       DATETIME(3) NOT NULL,
    try_at           DATETIME(3) NOT NULL,
    wake_at          DATETIME(3),
    owner            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    lease_until      DATETIME(3),
    fence            BIGINT UNSIGNED NOT NULL,
    retry_count      INT UNSIGNED NOT NULL,
    held             TINYINT(1) NOT NULL,
    paused           LONGTEXT,
    schedule         LONGTEXT NOT NULL,
    target           LONGTEXT NOT NULL,
    payload          LONGTEXT,
    misfire          VARCHAR(255) NOT NULL,
    recovery         VARCHAR(255) NOT NULL,
    overlap          VARCHAR(255) NOT NULL,
    max_retries      INT UNSIGNED NOT NULL,
    backoff_first_ms BIGINT UNSIGNED NOT NULL,
    backoff_max_ms   BIGINT UNSIGNED NOT NULL,
    error            LONGTEXT,
    made             LONGTEXT,
    saved_at         DATETIME(3) NOT NULL,
    ended_at         DATETIME(3),
    version          BIGINT UNSIGNED NOT NULL,
    notes            BIGINT UNSIGNED NOT NULL,
    -- A person fired it.
    asked            TINYINT(1) NOT NULL,
    -- It waits for a person: held, or DEAD.
    waits            TINYINT(1),
    -- When it was COMPLETED: retention counts from here.
    completed_at     DATETIME(3),
    -- What claims read.
    KEY trigger_due (wake_at, id),
    KEY trigger_waiting (waits, id),
    KEY trigger_ended (completed_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The newest notes of each trigger.
CREATE TABLE IF NOT EXISTS trigger_note (
    trigger_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq        BIGINT UNSIGNED NOT NULL,
    at         DATETIME(3) NOT NULL,
    occurrence DATETIME(3) NOT NULL,
    what       LONGTEXT NOT NULL,
    PRIMARY KEY (trigger_id, seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Since when there has been a scheduler without a gap, and until when the longest lease of a claim runs: one row.
CREATE TABLE IF NOT EXISTS scheduler_life (
    one   TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    since DATETIME(3) NOT NULL,
    until DATETIME(3) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO scheduler_life (one, since, until) VALUES (1, '1970-01-01 00:00:00', '1970-01-01 00:00:00');

INSERT IGNORE INTO change_mark (port, shard)
    SELECT 'triggers', a.n * 4 + b.n
    FROM (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS a,
         (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS b;
