SELECT {run} FROM dblock_history INDEXED BY dblock_history_time
WHERE {asked_runs} ORDER BY recorded_at DESC LIMIT :limit
