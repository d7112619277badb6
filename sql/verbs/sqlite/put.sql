-- Inside of a transaction that has looked at all rows: a grant of one key or several. A row a key, with the token.
UPDATE dblock_lock SET token = :token, intent_until = NULL, {granted}
WHERE lock_key IN (:keys) AND (lock_key, slot) IN (VALUES :rows)
RETURNING token
