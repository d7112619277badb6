-- Deletes all rows of these locks, in the same transaction that found the locks idle. Returns each row's token,
-- which raise_floor.sql must store in that transaction, too.
DELETE FROM dblock_lock WHERE lock_key IN (:keys) RETURNING token
