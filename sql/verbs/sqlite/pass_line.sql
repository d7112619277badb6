-- As leave_line.sql, for a request that was granted the lock. Also removes the places before its own, whose waiters did not
-- come, and those that count no more. A waiter that is there after all puts its place back.
DELETE FROM dblock_waiter
WHERE lock_key = :key AND (owner_id = :owner OR seen_until <= :wall OR (arrival, owner_id) < ({arrival}, :owner))
