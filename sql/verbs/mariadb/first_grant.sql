-- As grant_in_line.sql, for a row that was never granted.
UPDATE {lease_and_fence} = IF({is_free} AND {our_turn} AND {no_pause}, lease.lock_key, NULL)
SET {write_exclusive_grant}, lease.line_until = {line_of_others}
WHERE lease.lock_key = :key AND lease.slot = 0
