-- Inside a transaction that has looked at all rows: grants one key or several. Returns a token for each key.
UPDATE dblock_lock SET token = :token, {write_grant}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (VALUES :rows)
RETURNING token
