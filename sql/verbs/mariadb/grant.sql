-- Takes a lock for one exclusive holder, where nobody waits. If rows changed (the lock's and the fence's), the lock is granted,
-- and the reply tells the token. If none changed, the lock is held, cooling down, paused, waited for (grant_in_line.sql), done within
-- the period, was last granted in another mode, was never granted (first_grant.sql), or lacks a row here or in dblock_fence.
UPDATE {lease_and_fence} = IF({is_free} AND {nobody_waits} AND lease.token > 0, lease.lock_key, NULL)
SET {write_exclusive_grant}
WHERE lease.lock_key = :key AND lease.slot = 0
