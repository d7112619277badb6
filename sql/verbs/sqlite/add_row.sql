-- Adds a free row; does nothing if the row exists. It starts with the token floor, so that its first grant's
-- token is above the tokens of forgotten rows.
INSERT INTO dblock_lock (lock_key, slot, mode, slots, boot_id, boot_offset_us, create_time, update_time, token, version,
  lock_count, kind, ttl_us, margin_us, holder_host, holder_pid, holder_user, holder_command, holder_note)
SELECT :key, :slot, 'exclusive', 1, :boot_id, :offset, :wall, :wall, token_floor, 0, 0, 'run', 0, 0, '', 0, '', '', ''
FROM dblock_state WHERE true
ON CONFLICT (lock_key, slot) DO NOTHING
