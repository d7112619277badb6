-- As grant_rows.sql, for a reader or a holder of a slot. grant_own_rows.sql changes the lock's own row.
UPDATE dblock_lock SET token = :token, {write_grant}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (VALUES :rows)
RETURNING token
