CREATE INDEX IF NOT EXISTS dblock_history_time ON dblock_history (recorded_at)
