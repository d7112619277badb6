-- Creates the table of past runs. Running this twice does no harm.
CREATE TABLE IF NOT EXISTS dblock_history (
  lock_key VARBINARY(255) NOT NULL,
  recorded_at DATETIME(6) NOT NULL COMMENT 'the run had ended by then',
  token BIGINT UNSIGNED NOT NULL,
  lock_value VARBINARY(255) NOT NULL COMMENT 'owner id',
  kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  mode VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  holder_host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  holder_pid INT UNSIGNED NOT NULL,
  holder_user VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  holder_command VARCHAR(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  holder_note VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  acquired_at DATETIME(6) NOT NULL,
  released_at DATETIME(6) NULL COMMENT 'NULL: nobody released it',
  outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  exit_code INT NULL,
  attempts INT UNSIGNED NULL COMMENT 'how often the job was started; NULL: no job, or not known',
  PRIMARY KEY (lock_key, recorded_at, token),
  KEY dblock_history_time (recorded_at)
) ENGINE=InnoDB
