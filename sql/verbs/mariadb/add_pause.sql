-- Adds a pause. Error 1062: there is one of the same key or prefix.
INSERT INTO dblock_pause (pause_key, is_prefix, create_time, end_time, paused_by, note)
VALUES (:pause_key, :is_prefix, {now}, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND, :by, :note)
