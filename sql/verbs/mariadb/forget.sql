-- Deletes all rows of locks, if the version of the lock's own row (slot 0) is still as given. A grant in any
-- of the lock's rows changes that version. A lock that was forgotten and made anew since may have the same version:
-- the condition on its age spares it.
DELETE own, lease FROM dblock_lock AS own FORCE INDEX (PRIMARY)
LEFT JOIN dblock_lock AS lease FORCE INDEX (PRIMARY) ON lease.lock_key = own.lock_key AND lease.slot > 0
WHERE own.lock_key IN (:keys) AND own.slot = 0 AND (own.lock_key, own.version) IN (:rows)
  AND own.lock_value IS NULL AND own.update_time < {idle_since}
  AND own.token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
