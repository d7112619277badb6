-- Refuses new readers until :until, or for longer if another waiting writer has asked for longer.
UPDATE dblock_lock
SET version = {next_version},
  intent_until = IF(intent_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND
    AND intent_until <= {now} + INTERVAL :longest MICROSECOND,
    intent_until, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :until MICROSECOND)
WHERE lock_key = :key AND slot = 0
