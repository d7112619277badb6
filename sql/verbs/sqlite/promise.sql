-- Promises the next grant to a waiter, for :promise from now on; with :newest also if it is promised to another one.
UPDATE dblock_lock SET version = version + 1, promised_to = :owner, promised_until = :wall + :promise
WHERE lock_key = :key AND slot = 0 AND (:newest OR {not_promised})
