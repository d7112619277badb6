-- Inside of a transaction that has looked at all rows: a grant to one of them.
UPDATE dblock_lock SET token = :token, intent_until = NULL, {granted} WHERE lock_key = :key AND slot = :slot
