-- All rows of these keys, free ones too.
SELECT {status}, NULL, NULL, {pause_end} FROM dblock_lock WHERE lock_key IN (:keys) ORDER BY lock_key, slot
