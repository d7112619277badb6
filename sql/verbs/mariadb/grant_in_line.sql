-- As grant.sql, where somebody may be waiting.
UPDATE {lease_and_fence} = IF({is_free} AND lease.token > 0 AND {our_turn}, lease.lock_key, NULL)
SET {write_exclusive_grant}, lease.line_until = {line_of_others}
WHERE lease.lock_key = :key AND lease.slot = 0
