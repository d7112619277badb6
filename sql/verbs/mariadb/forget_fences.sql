-- What fences these locks, as far as it is as old. To be run first: a lock without a fence gets one when it is
-- granted, but a fence without its lock would be found by nobody.
DELETE FROM dblock_fence
WHERE lock_key IN (:keys) AND token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
