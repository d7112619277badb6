-- Deletes all rows of locks, if the version of the lock's own row (slot 0, the gate) is still as given. A grant in any
-- of the lock's rows changes that version. A lock that was forgotten and made anew since may have the same version:
-- the condition on its age spares it.
DELETE gate, lease FROM dblock_lock AS gate FORCE INDEX (PRIMARY)
LEFT JOIN dblock_lock AS lease FORCE INDEX (PRIMARY) ON lease.lock_key = gate.lock_key AND lease.slot > 0
WHERE gate.lock_key IN (:keys) AND gate.slot = 0 AND (gate.lock_key, gate.version) IN (:rows)
  AND gate.lock_value IS NULL AND gate.update_time < {idle_since}
  AND gate.token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
