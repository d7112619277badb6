-- Records a run. Takes its data from the lock's row until that row's next grant, then from the parameters. Then
-- the token also tells when the run began, nearly (for one exclusive key exactly), unless a clock had been set back; and of
-- an exclusive lock the row still tells when it ended, while the next holder runs. Later it tells when the last two
-- runs began, so this one is not shown beside those.
-- The last condition is true, and names an index of the table (terms.sql).
INSERT INTO dblock_history (lock_key, recorded_at, token, lock_value, kind, mode, holder_host, holder_pid, holder_user,
  holder_command, holder_note, acquired_at, released_at, outcome, exit_code, attempts)
SELECT :key, COALESCE(seen.update_time, {now}), :token, :owner, COALESCE(seen.kind, :kind), COALESCE(seen.mode, :mode),
  COALESCE(seen.holder_host, :host), COALESCE(seen.holder_pid, :pid), COALESCE(seen.holder_user, :user),
  COALESCE(seen.holder_command, :command), COALESCE(seen.holder_note, :note),
  COALESCE(seen.last_acquired_at, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :token MICROSECOND),
  IF(:was_released,
    COALESCE(seen.last_released_at,
      IF(later.last_acquired_at <= TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :token MICROSECOND, later.last_released_at,
        LEAST(COALESCE(later.last_acquired_at, later.create_time), later.create_time)),
      {now}),
    NULL), :outcome, :exit_code, :attempts
FROM (SELECT 1 AS one) AS one
LEFT JOIN dblock_lock AS later FORCE INDEX (PRIMARY)
  ON :mode = 'exclusive' AND later.mode = 'exclusive' AND later.lock_key = :key AND later.slot = 0 AND later.token > :token
LEFT JOIN dblock_lock AS seen FORCE INDEX (PRIMARY)
  ON seen.lock_key = :key AND seen.token = :token AND (seen.slot > 0 OR seen.mode = 'exclusive')
WHERE 0 = (SELECT COUNT(*) FROM dblock_history AS recorded USE INDEX (PRIMARY) WHERE FALSE)
