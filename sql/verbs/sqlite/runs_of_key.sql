-- Recorded runs of one key, the latest end first.
SELECT {run} FROM dblock_history WHERE lock_key = :key AND {asked_runs} ORDER BY recorded_at DESC LIMIT :limit
