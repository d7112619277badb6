-- Locks by the key and the version of their own row. No other row gets an owner without a new version of that one. Of
-- a lock that was forgotten and made anew since, the version may be the same, but not the age.
DELETE gate, lease FROM dblock_lock AS gate FORCE INDEX (PRIMARY)
LEFT JOIN dblock_lock AS lease FORCE INDEX (PRIMARY) ON lease.lock_key = gate.lock_key AND lease.slot > 0
WHERE gate.lock_key IN (:keys) AND gate.slot = 0 AND (gate.lock_key, gate.version) IN (:rows)
  AND gate.lock_value IS NULL AND gate.update_time < {idle_since}
  AND gate.token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
