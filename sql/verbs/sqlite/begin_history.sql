-- Records each run at its end. Fires on last_outcome, which grants set and all statements that free a row, so
-- renewals do not fire it. If the row had an owner and the token changes, the old lease was taken over.
CREATE TRIGGER IF NOT EXISTS dblock_lock_ended AFTER UPDATE OF last_outcome ON dblock_lock
WHEN OLD.lock_value IS NOT NULL AND (NEW.lock_value IS NULL OR NEW.token <> OLD.token)
BEGIN
  INSERT INTO dblock_history VALUES (OLD.lock_key, NEW.update_time, OLD.token, OLD.lock_value, OLD.kind, OLD.mode,
    OLD.holder_host, OLD.holder_pid, OLD.holder_user, OLD.holder_command, OLD.holder_note, NEW.last_acquired_at,
    NEW.last_released_at, NEW.last_outcome, NEW.last_exit_code, NEW.last_attempts);
END
