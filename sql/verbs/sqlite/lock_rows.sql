-- All rows of these keys, free ones too. Needs no row locks: it runs in a writing transaction, which excludes
-- all other writers from the store.
SELECT {status}, 0, NULL, {pause_end} FROM dblock_lock WHERE lock_key IN (:keys) ORDER BY lock_key, slot
