-- Rows by key, slot and version.
DELETE FROM dblock_lock WHERE (lock_key, slot, version) IN (:rows) AND {forgettable}
