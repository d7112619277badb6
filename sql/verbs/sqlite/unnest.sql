-- Counts one down, never below the holder's own.
UPDATE dblock_lock SET version = version + 1, lock_count = max(lock_count - 1, 1) WHERE {is_ref}
