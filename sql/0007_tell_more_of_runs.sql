-- Serves: 6
-- A dblock that knows only version 6 goes on, and counts and marks nothing. What marks a job's end names a token, so the
-- mark means nothing for the next holder, whichever dblock that is.
ALTER TABLE dblock_lock
  ADD COLUMN failures INT UNSIGNED NOT NULL DEFAULT 0
    COMMENT 'runs in a row that failed, the last of them the last run that has ended',
  ADD COLUMN job_ended_at DATETIME(6) NULL
    COMMENT 'when the command ended of a run that still waits for what the command left running',
  ADD COLUMN job_ended_token BIGINT UNSIGNED NULL
    COMMENT 'the token of that run: of a lease with another token job_ended_at tells nothing'
