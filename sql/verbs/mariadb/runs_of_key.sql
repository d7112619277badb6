-- Recorded runs of one key, the latest end first.
SELECT {run} FROM dblock_history FORCE INDEX (PRIMARY)
WHERE lock_key = :key AND {asked_runs} ORDER BY lock_key DESC, recorded_at DESC LIMIT :limit
