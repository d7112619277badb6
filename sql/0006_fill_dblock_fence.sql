-- For the locks that are there already, held ones among them.
INSERT INTO dblock_fence (lock_key, slot, token)
SELECT places.lock_key, places.slot, places.token
FROM (
  SELECT lock_key, 0 AS slot, IF(mode = 'exclusive', token, 0) AS token FROM dblock_lock
  UNION ALL
  SELECT lock_key, slot, IF(lock_value IS NULL, 0, token) FROM dblock_hold
) AS places
LEFT JOIN dblock_fence AS fence ON fence.lock_key = places.lock_key AND fence.slot = places.slot
WHERE fence.lock_key IS NULL
