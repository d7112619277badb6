-- Deletes the fences of these locks that are old enough. Runs before forget.sql: a lock without a fence gets
-- one at its next grant, but no statement would ever find a fence without its lock.
DELETE fence FROM dblock_fence AS fence USE INDEX (PRIMARY)
WHERE lock_key IN (:keys) AND token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
