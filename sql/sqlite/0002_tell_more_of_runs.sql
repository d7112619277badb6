-- Serves: 1
-- Runs in a row that failed, the last of them the last run that has ended. A dblock that knows only version 1 counts nothing.
ALTER TABLE dblock_lock ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
-- When the command ended of a run that still waits for what the command left running, and that run's token: of a lease with
-- another token the time tells nothing.
ALTER TABLE dblock_lock ADD COLUMN job_ended_at INTEGER;
ALTER TABLE dblock_lock ADD COLUMN job_ended_token INTEGER;
-- How often the job of the last run was started; for the trigger that records runs (begin_history), which nothing else tells.
ALTER TABLE dblock_lock ADD COLUMN last_attempts INTEGER;
