-- Rows by key, slot and version. Answers with the token of each, which raise_floor.sql must note in the same
-- transaction.
DELETE FROM dblock_lock WHERE (lock_key, slot, version) IN (VALUES :rows) AND {forgettable} RETURNING token
