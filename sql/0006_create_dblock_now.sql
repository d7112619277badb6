-- Serves: 6
-- The current holders, for people with a SQL prompt. An account also needs the right to read dblock_lock and dblock_waiter.
-- Applications write what they like into names and notes, and a prompt prints it as it is. So control characters, and those
-- that change the direction of text or show nothing, become question marks: the pattern is a set of their ranges.
CREATE SQL SECURITY INVOKER VIEW dblock_now AS
SELECT
  REGEXP_REPLACE(CONVERT(lock_key USING utf8mb4), CONVERT(x'5b002d1f7f2dc29fc2add89ce2808b2de2808fe280a82de280aee281a02de281afefbbbff3a080802df3a081bf5d' USING utf8mb4), '?') AS lock_key,
  REGEXP_REPLACE(CONCAT(IF(holder_user = '', '', CONCAT(holder_user, '@')), holder_host, IF(holder_pid = 0, '', CONCAT(':', holder_pid))), CONVERT(x'5b002d1f7f2dc29fc2add89ce2808b2de2808fe280a82de280aee281a02de281afefbbbff3a080802df3a081bf5d' USING utf8mb4), '?') AS holder,
  SEC_TO_TIME(TIMESTAMPDIFF(SECOND, create_time, UTC_TIMESTAMP(6))) AS held_for,
  TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expire_time) AS seconds_left,
  token,
  REGEXP_REPLACE(holder_note, CONVERT(x'5b002d1f7f2dc29fc2add89ce2808b2de2808fe280a82de280aee281a02de281afefbbbff3a080802df3a081bf5d' USING utf8mb4), '?') AS note,
  (SELECT COUNT(*) FROM dblock_waiter AS place
    WHERE place.lock_key = dblock_lock.lock_key AND place.seen_until > UTC_TIMESTAMP(6)) AS waiters
FROM dblock_lock
WHERE expire_time > UTC_TIMESTAMP(6)
