-- Undoes promise.sql for this waiter.
UPDATE dblock_lock FORCE INDEX (PRIMARY) SET version = {next_version}, promised_to = NULL, promised_until = NULL
WHERE lock_key = :key AND slot = 0 AND promised_to = :owner
