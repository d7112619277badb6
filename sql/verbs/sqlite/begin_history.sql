-- Grants and whatever frees a row set its last outcome, a renewal does not and is spared the look. Another token
-- under a holder: the lease before was taken over.
CREATE TRIGGER IF NOT EXISTS dblock_lock_ended AFTER UPDATE OF last_outcome ON dblock_lock
WHEN OLD.lock_value IS NOT NULL AND (NEW.lock_value IS NULL OR NEW.token <> OLD.token)
BEGIN
  INSERT INTO dblock_history VALUES (OLD.lock_key, NEW.update_time, OLD.token, OLD.lock_value, OLD.kind, OLD.mode,
    OLD.holder_host, OLD.holder_pid, OLD.holder_user, OLD.holder_command, OLD.holder_note, NEW.last_acquired_at,
    NEW.last_released_at, NEW.last_outcome, NEW.last_exit_code);
END
