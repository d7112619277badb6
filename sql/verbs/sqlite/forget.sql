-- In the transaction that has found them idle. Answers with the token of each row, which raise_floor.sql must note in
-- the same one.
DELETE FROM dblock_lock WHERE lock_key IN (:keys) RETURNING token
