-- Ends a pause. Its row stays for a while: {long_free} counts from the end.
UPDATE dblock_pause SET end_time = max(:wall, create_time + 1)
WHERE pause_key = :pause_key AND is_prefix = :is_prefix AND create_time = :made_at
