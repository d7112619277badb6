-- New readers are refused until then, or for longer where another writer has asked for that.
UPDATE dblock_lock
SET version = version + 1,
  intent_until = IF(intent_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND
    AND intent_until <= {now} + INTERVAL :longest MICROSECOND,
    intent_until, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND)
WHERE lock_key = :key AND slot = 0
