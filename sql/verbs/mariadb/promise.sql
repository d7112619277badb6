-- Promises the next grant to a waiter, for :promise from now on; with :newest also if it is promised to another one.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET version = {next_version}, promised_to = :owner, promised_until = {now} + INTERVAL :promise MICROSECOND
WHERE lock_key = :key AND slot = 0 AND (:newest OR {not_promised})
