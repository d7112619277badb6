-- Deletes a pause.
DELETE FROM dblock_pause WHERE pause_key = :pause_key AND is_prefix = :is_prefix AND create_time = :made_at
