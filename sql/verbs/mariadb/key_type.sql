-- The type of the column that holds the keys.
SELECT column_type FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'dblock_lock' AND column_name = 'lock_key'
