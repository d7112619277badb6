-- Replaces a pause of the same key or prefix, also one that has ended.
UPDATE dblock_pause SET create_time = :wall, end_time = :until, paused_by = :by, note = :note
WHERE pause_key = :pause_key AND is_prefix = :is_prefix
