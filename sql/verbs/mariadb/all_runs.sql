SELECT {run} FROM dblock_history FORCE INDEX (dblock_history_time)
WHERE {asked_runs} ORDER BY recorded_at DESC LIMIT :limit
