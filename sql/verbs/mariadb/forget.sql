-- Locks by the key and the version of their own row. No other row gets an owner without a new version of that one.
DELETE lease FROM dblock_lock AS gate FORCE INDEX (PRIMARY)
JOIN dblock_lock AS lease FORCE INDEX (PRIMARY) ON lease.lock_key = gate.lock_key
WHERE gate.lock_key IN (:keys) AND gate.slot = 0 AND (gate.lock_key, gate.version) IN (:rows)
