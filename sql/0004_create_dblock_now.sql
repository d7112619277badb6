-- Serves: 4
-- The current holders, for people with a SQL prompt. An account also needs the right to read dblock_lock.
CREATE SQL SECURITY INVOKER VIEW dblock_now AS
SELECT
  CONVERT(lock_key USING utf8mb4) AS lock_key,
  CONCAT(IF(holder_user = '', '', CONCAT(holder_user, '@')), holder_host, IF(holder_pid = 0, '', CONCAT(':', holder_pid))) AS holder,
  SEC_TO_TIME(TIMESTAMPDIFF(SECOND, create_time, UTC_TIMESTAMP(6))) AS held_for,
  TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expire_time) AS seconds_left,
  token,
  holder_note AS note
FROM dblock_lock
WHERE expire_time > UTC_TIMESTAMP(6)
