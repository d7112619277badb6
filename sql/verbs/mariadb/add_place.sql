-- Takes a place in the line of a lock; the reply tells the arrival. Error 1062: the request has one.
INSERT INTO dblock_waiter (lock_key, owner_id, arrival, seen_until, version, mode, slots, waits_elsewhere, line, waiter_host,
  waiter_pid, waiter_user)
VALUES (:key, :owner,
  TIMESTAMP'1970-01-01 00:00:00' + INTERVAL LAST_INSERT_ID(
    COALESCE(:arrival, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now})) * 1024 + :mark) DIV 1024 MICROSECOND,
  {new_end}, 1{null_unless_writable}, :mode, :slots, :waits_elsewhere, :line, :host, :pid, :user)
