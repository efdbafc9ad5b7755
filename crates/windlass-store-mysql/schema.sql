-- What the migrations come to, as MariaDB writes it: a test compares the two.

CREATE TABLE `async_tasks` (
  `seq` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `task_id` char(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `queue` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `status` varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `payload` longtext DEFAULT NULL,
  `result` longtext DEFAULT NULL,
  `error` longtext DEFAULT NULL,
  `submitted_at` datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  `started_at` datetime(3) DEFAULT NULL,
  `completed_at` datetime(3) DEFAULT NULL,
  `version` bigint(20) unsigned NOT NULL,
  `priority` tinyint(4) NOT NULL DEFAULT 0,
  `rank` smallint(6) NOT NULL DEFAULT 0,
  `live` tinyint(3) unsigned DEFAULT NULL,
  `run_at` datetime(3) NOT NULL,
  `wake_at` datetime(3) DEFAULT NULL,
  `attempt` int(10) unsigned NOT NULL DEFAULT 0,
  `max_attempts` int(10) unsigned NOT NULL DEFAULT 1,
  `deliveries` int(10) unsigned NOT NULL DEFAULT 0,
  `backoff_first_ms` bigint(20) unsigned NOT NULL DEFAULT 0,
  `backoff_max_ms` bigint(20) unsigned NOT NULL DEFAULT 0,
  `timeout_ms` bigint(20) unsigned DEFAULT NULL,
  `worker` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `fence` bigint(20) unsigned NOT NULL DEFAULT 0,
  `lease_until` datetime(3) DEFAULT NULL,
  `key` varbinary(256) DEFAULT NULL,
  `digest` bigint(20) unsigned NOT NULL DEFAULT 0,
  `cancel` longtext DEFAULT NULL,
  `asked` longtext DEFAULT NULL,
  `ended_as` varchar(16) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  PRIMARY KEY (`seq`),
  UNIQUE KEY `async_tasks_id` (`task_id`),
  UNIQUE KEY `async_tasks_key` (`queue`,`tenant_id`,`key`),
  KEY `async_tasks_live` (`live`,`queue`,`tenant_id`,`rank`,`run_at`),
  KEY `async_tasks_wake` (`live`,`queue`,`wake_at`,`tenant_id`),
  KEY `async_tasks_ended` (`ended_as`,`completed_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `change_mark` (
  `port` varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `shard` tinyint(3) unsigned NOT NULL,
  `n` bigint(20) unsigned NOT NULL DEFAULT 0,
  PRIMARY KEY (`port`,`shard`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `fence_counter` (
  `fence` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  PRIMARY KEY (`fence`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `instance` (
  `instance_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `up_since` datetime(3) NOT NULL,
  `lease_until` datetime(3) NOT NULL,
  PRIMARY KEY (`instance_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `job_asker` (
  `queue` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `asker` char(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `until` datetime(3) NOT NULL,
  PRIMARY KEY (`queue`,`asker`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `job_feed` (
  `shard` tinyint(3) unsigned NOT NULL,
  `slot` tinyint(3) unsigned NOT NULL,
  `n` bigint(20) unsigned NOT NULL,
  `teller` char(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ids` longtext CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  PRIMARY KEY (`shard`,`slot`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `job_rule` (
  `scope` varchar(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `name` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `running` int(10) unsigned DEFAULT NULL,
  `waiting` int(10) unsigned DEFAULT NULL,
  `held` longtext DEFAULT NULL,
  PRIMARY KEY (`scope`,`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `operation` (
  `op_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `digest` bigint(20) unsigned NOT NULL,
  `version` bigint(20) unsigned NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `at` datetime(3) NOT NULL,
  `answer` longtext DEFAULT NULL,
  PRIMARY KEY (`op_id`),
  KEY `operation_age` (`at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `plan_event` (
  `plan_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `at` datetime(3) NOT NULL,
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `by` varchar(128) DEFAULT NULL,
  `reason` varchar(1024) DEFAULT NULL,
  `kind` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `fact` longtext NOT NULL,
  PRIMARY KEY (`plan_id`,`seq`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `plan_gone` (
  `plan_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (`plan_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `plan_spec` (
  `plan_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `spec` longtext NOT NULL,
  PRIMARY KEY (`plan_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `plan_state_projection` (
  `plan_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `name` text NOT NULL,
  `status` varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `task_ids` longtext NOT NULL,
  `tasks` int(10) unsigned NOT NULL,
  `max_concurrency` int(10) unsigned NOT NULL,
  `on_failure` varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `on_conflict` varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `recovery` varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `conductor` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `cancelled` tinyint(1) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `started_at` datetime(3) DEFAULT NULL,
  `updated_at` datetime(3) NOT NULL,
  `ended_at` datetime(3) DEFAULT NULL,
  `version` bigint(20) unsigned NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  PRIMARY KEY (`plan_id`),
  KEY `plan_by_status` (`status`,`created_at` DESC,`plan_id`),
  KEY `plan_ended` (`ended_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `scheduler_life` (
  `one` tinyint(3) unsigned NOT NULL,
  `since` datetime(3) NOT NULL,
  `until` datetime(3) NOT NULL,
  PRIMARY KEY (`one`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `task_checkpoint` (
  `task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `version` bigint(20) unsigned NOT NULL,
  `last_completed_stage_index` int(11) NOT NULL,
  `saved_at` datetime(3) NOT NULL,
  `executor_instance` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `fence` bigint(20) unsigned NOT NULL,
  `checkpoint` longtext NOT NULL,
  PRIMARY KEY (`task_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `task_event` (
  `task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `at` datetime(3) NOT NULL,
  `by` varchar(128) DEFAULT NULL,
  `reason` varchar(1024) DEFAULT NULL,
  `kind` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `fact` longtext NOT NULL,
  PRIMARY KEY (`task_id`,`seq`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `task_spec` (
  `task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `spec` longtext NOT NULL,
  PRIMARY KEY (`task_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `task_state_projection` (
  `task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `plan_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `position` int(10) unsigned NOT NULL DEFAULT 0,
  `status` varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  `pause_requested` tinyint(1) NOT NULL DEFAULT 0,
  `start_requested` tinyint(1) NOT NULL DEFAULT 0,
  `owner_asked` tinyint(1) NOT NULL DEFAULT 0,
  `readiness` tinyint(3) unsigned DEFAULT NULL,
  `control` longtext DEFAULT NULL,
  `owner` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `fence` bigint(20) unsigned NOT NULL DEFAULT 0,
  `overtaken` tinyint(1) NOT NULL DEFAULT 0,
  `ready_at` datetime(3) NOT NULL DEFAULT '1970-01-01 00:00:00.000',
  `created_at` datetime(3) NOT NULL,
  `started_at` datetime(3) DEFAULT NULL,
  `updated_at` datetime(3) NOT NULL,
  `ended_at` datetime(3) DEFAULT NULL,
  `detail` longtext NOT NULL,
  `checkpoint_version` bigint(20) unsigned NOT NULL DEFAULT 0,
  `version` bigint(20) unsigned NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `op_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `op_digest` bigint(20) unsigned DEFAULT NULL,
  `op_at` datetime(3) DEFAULT NULL,
  PRIMARY KEY (`task_id`),
  KEY `task_by_status` (`status`,`created_at` DESC,`plan_id`,`position`),
  KEY `task_by_tenant` (`tenant_id`,`created_at` DESC,`plan_id`,`position`),
  KEY `task_by_plan` (`plan_id`,`created_at` DESC,`position`,`status`),
  KEY `task_ready` (`plan_id`,`readiness`,`ready_at`,`position`),
  KEY `task_slot` (`plan_id`,`owner`),
  KEY `task_asked` (`owner`,`owner_asked`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `tenant_freeze` (
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `by` varchar(128) NOT NULL,
  `reason` varchar(1024) DEFAULT NULL,
  `frozen_at` datetime(3) NOT NULL,
  PRIMARY KEY (`tenant_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `tenant_lock` (
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `plan_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `fence` bigint(20) unsigned NOT NULL,
  `acquired_at` datetime(3) NOT NULL,
  `expires_at` datetime(3) NOT NULL,
  PRIMARY KEY (`tenant_id`),
  KEY `tenant_lock_expires` (`expires_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `tenant_state` (
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `fence` bigint(20) unsigned NOT NULL DEFAULT 0,
  `latest_task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `started_task_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  PRIMARY KEY (`tenant_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `trigger_note` (
  `trigger_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `at` datetime(3) NOT NULL,
  `occurrence` datetime(3) NOT NULL,
  `what` longtext NOT NULL,
  PRIMARY KEY (`trigger_id`,`seq`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `triggers` (
  `id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `parent_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `tenant_id` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `status` varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `trigger_at` datetime(3) NOT NULL,
  `try_at` datetime(3) NOT NULL,
  `wake_at` datetime(3) DEFAULT NULL,
  `owner` varchar(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT NULL,
  `lease_until` datetime(3) DEFAULT NULL,
  `fence` bigint(20) unsigned NOT NULL,
  `retry_count` int(10) unsigned NOT NULL,
  `held` tinyint(1) NOT NULL,
  `paused` longtext DEFAULT NULL,
  `schedule` longtext NOT NULL,
  `target` longtext NOT NULL,
  `payload` longtext DEFAULT NULL,
  `misfire` varchar(255) NOT NULL,
  `recovery` varchar(255) NOT NULL,
  `overlap` varchar(255) NOT NULL,
  `max_retries` int(10) unsigned NOT NULL,
  `backoff_first_ms` bigint(20) unsigned NOT NULL,
  `backoff_max_ms` bigint(20) unsigned NOT NULL,
  `error` longtext DEFAULT NULL,
  `made` longtext DEFAULT NULL,
  `saved_at` datetime(3) NOT NULL,
  `ended_at` datetime(3) DEFAULT NULL,
  `version` bigint(20) unsigned NOT NULL,
  `notes` bigint(20) unsigned NOT NULL,
  `asked` tinyint(1) NOT NULL,
  `waits` tinyint(1) DEFAULT NULL,
  `completed_at` datetime(3) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `trigger_due` (`wake_at`,`id`),
  KEY `trigger_waiting` (`waits`,`id`),
  KEY `trigger_ended` (`completed_at`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `windlass_migration` (
  `number` int(10) unsigned NOT NULL,
  `name` varchar(64) NOT NULL,
  `checksum` char(8) NOT NULL,
  `applied_at` datetime(3) NOT NULL,
  PRIMARY KEY (`number`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

