DROP TRIGGER IF EXISTS dblock_lock_ended
