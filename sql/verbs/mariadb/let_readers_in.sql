-- Undoes keep_readers_away.sql, unless another writer has asked for longer since.
UPDATE dblock_lock SET version = {next_version}, intent_until = NULL
WHERE lock_key = :key AND slot = 0 AND intent_until = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND
