-- Frees one lease that is past its margin, unless the row holds another lease by now.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET {record_abandoned}, last_released_at = NULL, lock_count = 0 * {tell_history}, {free_row}
WHERE lock_key = :key AND slot = :slot AND lock_value = :owner AND token = :token AND {past_margin}
