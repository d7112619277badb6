-- As grant.sql, for a row that was never granted.
UPDATE {lease_and_fence} = IF({is_free} AND {no_pause}, lease.lock_key, NULL)
SET {write_exclusive_grant}
WHERE lease.lock_key = :key AND lease.slot = 0
