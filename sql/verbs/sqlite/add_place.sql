-- Takes a place in the line of a lock; returns the arrival. Does nothing if the request has one.
INSERT INTO dblock_waiter (lock_key, owner_id, arrival, seen_until, mode, slots, waits_elsewhere, line, waiter_host,
  waiter_pid, waiter_user)
VALUES (:key, :owner, coalesce(:arrival, :wall), :wall + :length, :mode, :slots, :waits_elsewhere, :line, :host, :pid, :user)
ON CONFLICT (lock_key, owner_id) DO NOTHING
RETURNING arrival
