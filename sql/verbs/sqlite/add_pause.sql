-- Adds a pause; does nothing if there is one of the same key or prefix that has not ended.
INSERT INTO dblock_pause (pause_key, is_prefix, create_time, end_time, paused_by, note)
VALUES (:pause_key, :is_prefix, :wall, :until, :by, :note) ON CONFLICT (pause_key, is_prefix)
DO UPDATE SET create_time = excluded.create_time, end_time = excluded.end_time, paused_by = excluded.paused_by, note = excluded.note
  WHERE dblock_pause.end_time <= :wall
