-- Refuses new readers until :until, or for longer if another waiting writer has asked for longer.
UPDATE dblock_lock
SET boot_id = :boot_id, boot_offset_us = :offset,
  intent_until = max(:until, iif({this_boot} AND intent_until + :offset - boot_offset_us <= :wall + :longest,
    intent_until + :offset - boot_offset_us, 0))
WHERE lock_key = :key AND slot = 0 AND lock_value IS NULL
