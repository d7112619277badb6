-- Replaces a pause of the same key or prefix.
UPDATE dblock_pause USE INDEX (PRIMARY)
SET create_time = {now}, end_time = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND, paused_by = :by, note = :note
WHERE {is_named_pause}
