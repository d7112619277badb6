-- Replaces a pause of the same key or prefix.
UPDATE dblock_pause SET create_time = :wall, end_time = :until, paused_by = :by, note = :note
WHERE pause_key = :pause_key AND is_prefix = :is_prefix AND create_time = :made_at AND end_time > :wall
