-- All rows of these keys, free ones too. In a transaction that is going to change something, which has the store to
-- itself, reading is locking.
SELECT {status} FROM dblock_lock WHERE lock_key IN (:keys) ORDER BY lock_key, slot
