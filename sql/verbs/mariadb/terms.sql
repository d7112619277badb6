-- What the statements of this folder have in common. `{name}` in a statement stands for the text that follows the
-- name here; `:name` is a parameter (src/store/verbs.hpp). Times are computed and compared on the server.

-- {now} The present, fixed at the start of a statement: so a wait for a row lock can only shorten a lease.
UTC_TIMESTAMP(6)

-- {next_token} Above the last one, and above those of rows that were forgotten: the time in microseconds.
GREATEST(lease.token + 1, CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) AS UNSIGNED))

-- {past_margin} Nobody can believe any more that this lease is theirs.
expire_time + INTERVAL margin_us MICROSECOND <= {now}

-- {hold_is_over} No cooldown keeps the lock.
(hold_until IS NULL OR hold_until <= {now})

-- {not_done} No success of this key is dated within the period (src/lease/promises.hpp), or none is asked for.
(:period IS NULL OR success_acquired_at IS NULL
  OR success_acquired_at <= {now} - INTERVAL :look_back MICROSECOND
  OR success_acquired_at > {now} + INTERVAL :look_ahead MICROSECOND)

-- {is_free} The row can be granted to an exclusive holder. Where others had the lock last, whether they are gone is
-- not in this row.
mode = 'exclusive' AND (lock_value IS NULL OR {past_margin}) AND {hold_is_over} AND {not_done}

-- {is_ref} The lease that the caller names: in the one row that is known, or in any row of the key.
lock_key = :key AND slot BETWEEN :first_slot AND :last_slot AND lock_value = :owner
  AND (:token IS NULL OR token = :token) AND (NOT :script OR kind = 'acquire')

-- {taken_over} A grant records for the last holder what that did not say itself. Assignments run left to right on
-- MySQL, and all at once under MariaDB's SIMULTANEOUS_ASSIGNMENT: what is read comes before it is written, which
-- means the same under both.
lease.last_acquired_at = IF(lease.lock_value IS NULL, lease.last_acquired_at, lease.create_time),
lease.last_released_at = IF(lease.lock_value IS NULL, lease.last_released_at, NULL),
lease.last_outcome = IF(lease.lock_value IS NULL, lease.last_outcome, 'abandoned'),
lease.last_exit_code = IF(lease.lock_value IS NULL, lease.last_exit_code, NULL)

-- {granted} What a grant writes besides that, the token, and how the lock is shared. The row is kept long enough for
-- a success to be found in it.
lease.version = lease.version + 1, lease.lock_value = :owner, lease.create_time = {now}, lease.update_time = {now},
lease.expire_time = {now} + INTERVAL :ttl MICROSECOND, lease.lock_count = 1, lease.kind = :kind, lease.ttl_us = :ttl,
lease.margin_us = :margin, lease.heartbeat_us = :heartbeat,
lease.hold_until = {now} + INTERVAL :min_hold MICROSECOND, lease.revoke_time = NULL, lease.holder_host = :host,
lease.holder_pid = :pid, lease.holder_user = :user, lease.holder_command = :command, lease.holder_note = :note,
lease.keep_until = IF(:period IS NULL, lease.keep_until,
  GREATEST(COALESCE(lease.keep_until, {now} + INTERVAL :period MICROSECOND), {now} + INTERVAL :period MICROSECOND))

-- {keeps_history} The mark that `migrate --history on` leaves beside the versions, which everybody may read.
EXISTS(SELECT 1 FROM dblock_schema WHERE version = 0)

-- {tell_history} Where a history is kept the token comes back as the insert id, which costs those who keep none no
-- statement.
LAST_INSERT_ID(IF({keeps_history}, token, 0))

-- {freed} Frees the row. After what is remembered of the run, and after the count: see {taken_over}.
version = version + 1, update_time = {now}, lock_value = NULL, expire_time = NULL, revoke_time = NULL

-- {ended} What the end of a run says of it.
last_acquired_at = create_time, last_released_at = {now}, last_outcome = :outcome, last_exit_code = :exit_code,
success_acquired_at = IF(:outcome = 'succeeded', create_time, success_acquired_at),
success_released_at = IF(:outcome = 'succeeded', {now}, success_released_at)

-- {nested_is_null} 0, or NULL where a nested run holds the lease as well: the column refuses that, which undoes the
-- whole statement (error 1048).
IF(NOT :leaves_nested OR lock_count < 2 OR expire_time <= {now}, 0, NULL)

-- {status} The columns of a status row, in the order of src/store/rows.cpp.
lock_key, lock_value, token, lock_count, kind, holder_host, holder_pid, holder_user, holder_command, holder_note,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', create_time), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expire_time), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', revoke_time),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', hold_until), ttl_us, margin_us, heartbeat_us,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_released_at),
last_outcome, last_exit_code,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', success_acquired_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', success_released_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}), mode, slots, slot,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', intent_until)

-- {takes_no_writes} Whatever the account may do: who has READ ONLY ADMIN or SUPER would write on a replica, and both
-- sides of a switchover would grant. read_only is a number on some servers and a word on others.
(@@innodb_read_only OR CONCAT(@@global.read_only) NOT IN ('0', 'OFF'))

-- {this_server} Which server answers, for people. Tells servers apart, also those that were cloned with their
-- configuration.
CONCAT(@@hostname, ':', @@port, ' (server_id ', @@server_id, ')')

-- {answering_replica} A column more of what is read: which server answers, where that is one that takes no writes.
IF({takes_no_writes}, {this_server}, NULL)

-- {own_fence} 1 where the row called `lease` has a fence. Counted, so that no optimizer turns it into a search of the
-- table.
SELECT COUNT(*) FROM dblock_fence AS fence WHERE fence.lock_key = lease.lock_key AND fence.slot = lease.slot

-- {idle_since} The row was free then, and has been since.
{now} - INTERVAL :forget_after MICROSECOND

-- {forgettable} Old enough by every mark the row carries.
lock_value IS NULL AND update_time < {idle_since}
  AND token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
  AND (keep_until IS NULL OR keep_until <= {now}) AND {hold_is_over}

-- {idle_locks} A lock is forgotten as a whole: each of its rows may know of runs that no other row knows of.
dblock_lock AS gate FORCE INDEX (dblock_lock_time)
WHERE gate.expire_time IS NULL AND gate.update_time < {idle_since} AND gate.slot = 0
  AND 0 = (SELECT COUNT(*) FROM dblock_lock FORCE INDEX (PRIMARY)
    WHERE lock_key = gate.lock_key AND NOT COALESCE({forgettable}, FALSE))

-- {run} The columns of a recorded run, in the order of src/store/past_runs.hpp.
lock_key, token, lock_value, kind, mode, holder_host, holder_pid, holder_user, holder_command, holder_note,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', released_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', recorded_at), outcome, exit_code

-- {asked_runs} Those that ended within the time that is asked for.
recorded_at >= COALESCE({now} - INTERVAL :since MICROSECOND, '1970-01-01')

-- {old_runs} Found by the index on the time whatever the optimizer thinks of it.
dblock_history FORCE INDEX (dblock_history_time) WHERE recorded_at < {idle_since}
