-- Undoes keep_readers_away.sql, unless another writer has asked for longer since.
UPDATE dblock_lock SET intent_until = NULL WHERE lock_key = :key AND slot = 0 AND intent_until = :until
