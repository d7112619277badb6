-- Frees one lease that is past its margin, unless the row holds another lease by now.
UPDATE dblock_lock
SET {free_row}, {record_abandoned}, last_released_at = NULL, lock_count = 0
WHERE lock_key = :key AND slot = :slot AND lock_value = :owner AND token = :token AND {past_margin}
