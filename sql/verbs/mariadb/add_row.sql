-- Adds a row that is free and was never held; somebody may be waiting for it, as for one of several locks. Error 1062: the row exists already.
INSERT INTO dblock_lock (lock_key, slot, mode, create_time, update_time, token, version, lock_count, kind, ttl_us,
  margin_us, line_until, holder_host, holder_pid, holder_user, holder_command, holder_note)
VALUES (:key, :slot, IF(:slot > 0, 'slot', 'exclusive'), {now}, {now}, 0, 0, 0, 'run', 0, 0,
  (SELECT MAX(place.seen_until) FROM dblock_waiter AS place USE INDEX (PRIMARY) WHERE place.lock_key = :key), '', 0, '', '', '')
