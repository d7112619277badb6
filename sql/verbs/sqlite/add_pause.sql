-- Adds a pause; does nothing if there is one of the same key or prefix.
INSERT INTO dblock_pause (pause_key, is_prefix, create_time, end_time, paused_by, note)
VALUES (:pause_key, :is_prefix, :wall, :until, :by, :note) ON CONFLICT (pause_key, is_prefix) DO NOTHING
