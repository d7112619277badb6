-- Parts that the statements of this folder share. `{name}` in a statement stands for the text that follows the
-- name here or in ../terms.sql; `:name` is a parameter (src/store/verbs.hpp), and `[name|text]` is the text if that parameter is given: neither
-- NULL nor FALSE. So a statement carries no more than is asked for. Times are computed and compared on the server.
--
-- A statement names an index of each table that it reads or changes. A view has none: so where somebody has put a view in the
-- place of a table, the statement fails before code of the view runs with the rights of this session. Only INSERT, and DELETE
-- from one table, can name none. To look at locks and to reap takes neither, but record_run.sql, whose SELECT names it.

-- {now} The server's time at the start of the statement. So a statement that waits for a row lock can only
-- shorten a lease, never lengthen it.
UTC_TIMESTAMP(6)

-- {next_token} Above the last token of the row and, being the time in microseconds, of forgotten rows.
GREATEST(lease.token + 1, CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) AS UNSIGNED))

-- {takes_no_writes} The server is read-only, even if the account may write there: with READ ONLY ADMIN or SUPER
-- dblock could write on a replica, and both sides of a switchover would grant. read_only is a number on some
-- servers and a word on others.
(@@innodb_read_only OR CONCAT(@@global.read_only) NOT IN ('0', 'OFF'))

-- {membership} Not NULL on an ONLINE member of a replication group that reaches the majority. Elsewhere the function fails (error
-- 1123) before its statement does anything. Every account may call it; MySQL before 8.0.16 does not have it.
group_replication_get_communication_protocol()

-- {null_unless_writable} Adds NULL on a server that takes no writes, if the account may write there all the same. The column
-- refuses NULL, which undoes the statement (error 1048). So each change proves what the session's set-up proved: after a
-- switchover nothing is renewed or released on the old primary, whose writes nobody replicates any more. Where a
-- replication group is configured, it also asks whether the server is a member now. :proves_writes is FALSE where
-- statements are logged as text, since a replica would refuse this one (src/store/mariadb/session/challenge.hpp).
[proves_writes| + IF({takes_no_writes}][proves_membership| OR {membership} IS NULL][proves_writes|, NULL, 0)]

-- {where_writable} A condition with which a DELETE proves the same: on another server it deletes nothing.
[proves_writes| AND NOT {takes_no_writes}][proves_membership| AND {membership} IS NOT NULL]

-- {next_version}
version + 1{null_unless_writable}

-- {past_margin} The lease margin is over too: no process can still believe that it holds this lease.
expire_time + INTERVAL margin_us MICROSECOND <= {now}

-- {hold_is_too_long} The cooldown would last for longer than was asked for: the clock was set back since. The
-- clocks of a cluster differ by less than 3 s. FALSE where the length is not known: then the cooldown counts.
COALESCE(hold_until > {now} + INTERVAL hold_us + 3000000 MICROSECOND, FALSE)

-- {not_cooling_down} The lock is not cooling down. Never NULL.
(hold_until IS NULL OR hold_until <= {now} OR {hold_is_too_long})

-- {not_done} A condition more if the caller names a period: the key has no success dated within it (src/lease/promises.hpp).
[period| AND (success_acquired_at IS NULL OR success_acquired_at <= {now} - INTERVAL :look_back MICROSECOND
  OR success_acquired_at > {now} + INTERVAL :look_ahead MICROSECOND)]

-- {covers} The pause, a row of dblock_pause, covers the key of the row called `lease` and has not ended. By the row's key
-- and not by the caller's: so the server reads dblock_pause after it has read the row.
pause.end_time > {now} AND pause.pause_key = IF(pause.is_prefix, LEFT(lease.lock_key, LENGTH(pause.pause_key)), lease.lock_key)

-- {not_paused} No pause covers the row called `lease`, by the mark in that row. A pause is committed first, and then written
-- into the mark of every row that is there. A row that was added later has no such mark, so its first grant asks for {no_pause}
-- as well.
(lease.paused_until IS NULL OR lease.paused_until <= {now})

-- {no_pause} No pause covers the row called `lease`, by dblock_pause. Read after the row, which was committed before: so it
-- finds each pause whose marking came before the row. A sub-query is safe here, because it only refuses.
0 = (SELECT COUNT(*) FROM dblock_pause AS pause USE INDEX (PRIMARY) WHERE {covers})

-- {arrival} When the caller's request began to wait; one that does not wait comes now.
COALESCE(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :arrival MICROSECOND, {now})

-- {counts} The place, a row of dblock_waiter called `place`, counts: its waiter was seen lately. No place is written for more than
-- an hour, so one that would was written before the clock was set back.
place.seen_until > {now} AND place.seen_until <= {now} + INTERVAL 61 MINUTE

-- {nobody_waits} Nobody waits for the row called `lease`, by the mark in that row. A place is committed first, and then written into
-- the mark.
(lease.line_until IS NULL OR lease.line_until <= {now})

-- {long_free} The row called `lease` could have been granted for three seconds: who stands before the caller does not come.
GREATEST(lease.update_time, COALESCE(lease.expire_time + INTERVAL lease.margin_us MICROSECOND, lease.update_time),
  COALESCE(lease.hold_until, lease.update_time), COALESCE(lease.paused_until, lease.update_time)) <= {now} - INTERVAL 3 SECOND

-- {places} The table of the places, for {our_turn}.
dblock_waiter AS place USE INDEX (PRIMARY)

-- {not_outrun} A condition more if the caller waits with line = 'newest': no request that came later was granted the lock.
[newest|AND (lease.arrived_at IS NULL OR lease.arrived_at <= {arrival})]

-- {line_of_others} Until when somebody else may be waiting for the row called `lease`.
(SELECT MAX(place.seen_until) FROM {places}
  WHERE place.lock_key = lease.lock_key AND place.owner_id <> :owner AND {counts})

-- {is_named_lease} The lease that the caller names: in one row if the caller knows its slot, else in any of the key's.
lock_key = :key AND slot BETWEEN :first_slot AND :last_slot AND lock_value = :owner
  AND (:token IS NULL OR token = :token)[of_kind| AND kind = :of_kind]

-- {record_takeover} If the last holder did not release, a grant records that its lease was abandoned. MySQL runs
-- assignments from left to right, MariaDB under SIMULTANEOUS_ASSIGNMENT all at once. Here and below each column
-- is read before it is written, so that both mean the same.
lease.last_acquired_at = IF(lease.lock_value IS NULL, lease.last_acquired_at, lease.create_time),
lease.last_released_at = IF(lease.lock_value IS NULL, lease.last_released_at, NULL),
lease.last_outcome = IF(lease.lock_value IS NULL, lease.last_outcome, 'abandoned'),
lease.last_exit_code = IF(lease.lock_value IS NULL, lease.last_exit_code, NULL),
lease.failures = lease.failures + (lease.lock_value IS NOT NULL AND lease.kind = 'run')

-- {write_grant} What a grant writes besides {record_takeover}, the token, mode and slots. keep_until keeps the row long
-- enough for {not_done} to find a success in it.
lease.version = lease.version + 1{null_unless_writable},
lease.lock_value = :owner, lease.create_time = {now}, lease.update_time = {now},
lease.expire_time = {now} + INTERVAL :ttl MICROSECOND, lease.lock_count = 1, lease.kind = :kind, lease.ttl_us = :ttl,
lease.margin_us = :margin, lease.heartbeat_us = :heartbeat,
lease.hold_until = {now} + INTERVAL :min_hold MICROSECOND, lease.hold_us = :min_hold,
lease.revoke_time = NULL, lease.revoked_by = NULL,
lease.replaceable = :replaceable, lease.arrived_at = {arrival}, lease.holder_host = :host,
lease.holder_pid = :pid, lease.holder_user = :user, lease.holder_command = :command, lease.holder_note = :note
[period|, lease.keep_until =
  GREATEST(COALESCE(lease.keep_until, {now} + INTERVAL :period MICROSECOND), {now} + INTERVAL :period MICROSECOND)]

-- {lease_and_fence} The lock's own row, and its fence, whose key follows: NULL unless the row can be granted. A refused try must
-- not touch the fence, which a job's transaction may keep locked. STRAIGHT_JOIN: the server reads the lock's row first,
-- and evaluates the condition once.
dblock_lock AS lease USE INDEX (PRIMARY) STRAIGHT_JOIN dblock_fence AS fence USE INDEX (PRIMARY) ON fence.slot = 0 AND fence.lock_key

-- {write_exclusive_grant} What a grant of one lock to one holder writes. The server chooses which of the two tables it
-- writes first: if it has written this grant to the lease already, the fence takes the token from there.
{record_takeover},
lease.token = LAST_INSERT_ID({next_token} * 1024 + :mark) DIV 1024,
{write_grant}, lease.slots = 1,
fence.token = IF(lock_value = :owner AND create_time = {now}, lease.token, {next_token})

-- {keeps_history} True if runs are recorded. It stands beside the versions, because every account may read those.
EXISTS(SELECT 1 FROM dblock_schema USE INDEX (PRIMARY) WHERE version = 1 AND keeps_history)

-- {tell_history} The reply's insert id is the token if runs are recorded, else 0. So without a history no
-- further statement is needed.
LAST_INSERT_ID(IF({keeps_history}, token, 0))

-- {free_row} Frees the row. Must follow the assignments that record the run and set lock_count, for the reason
-- given at {record_takeover}.
version = {next_version}, update_time = {now}, lock_value = NULL, expire_time = NULL, revoke_time = NULL,
revoked_by = NULL

-- {keeps_longer} A cooldown of :cooldown from now replaces the row's cooldown, which ends sooner or does not count. No
-- cooldown follows a revocation.
revoke_time IS NULL
  AND (hold_until IS NULL OR hold_until <= {now} + INTERVAL :cooldown MICROSECOND OR {hold_is_too_long})

-- {cool_down} Grants the lock to nobody else for :cooldown from now. Must precede {free_row}, which forgets a revocation.
-- The new hold_until fulfils {keeps_longer} too, so the second assignment decides as the first, whether it reads the
-- new value (MySQL) or the old one.
[cooldown|, hold_until = IF({keeps_longer}, {now} + INTERVAL :cooldown MICROSECOND, hold_until),
  hold_us = IF({keeps_longer}, :cooldown, hold_us)]

-- {record_end} Records the end of a run. Some ends are neither a success nor a failure, and leave the count as it is.
last_acquired_at = create_time, last_released_at = {now}, last_outcome = :outcome, last_exit_code = :exit_code
[is_success|, success_acquired_at = create_time, success_released_at = {now}, failures = 0]
[is_failure|, failures = failures + 1]

-- {record_abandoned} Records the end of a run that nobody released. Its statement says when that was, where it is known.
last_acquired_at = create_time, last_outcome = 'abandoned', last_exit_code = NULL, failures = failures + (kind = 'run')

-- {past_runs} What a row knows of past runs, as the caller has found it.
last_acquired_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :last_acquired MICROSECOND,
last_released_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :last_released MICROSECOND,
last_outcome = :last_outcome, last_exit_code = :last_exit_code, failures = :failures,
success_acquired_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :success_acquired MICROSECOND,
success_released_at = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :success_released MICROSECOND

-- {nested_is_null} 0, or NULL if a nested run holds the lease too. The column refuses NULL, which undoes the
-- whole statement (error 1048).
IF(NOT :leaves_nested OR lock_count < 2 OR expire_time <= {now}, 0, NULL)

-- {status} The columns of a status row, in the order of src/store/rows.hpp. The last one is the latest of: the last change, the end of
-- the cooldown, the end of the pause; now at most. {long_free} counts from the same times, and from the lease's end.
lock_key, lock_value, token, lock_count, kind, holder_host, holder_pid, holder_user, holder_command, holder_note,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', create_time),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', update_time),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expire_time), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', revoke_time),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF({not_cooling_down}, NULL, hold_until)), ttl_us, margin_us, heartbeat_us,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_released_at),
last_outcome, last_exit_code, failures,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', success_acquired_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', success_released_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}), mode, slots, slot,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', line_until), replaceable, revoked_by,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', arrived_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', IF(job_ended_token = token, job_ended_at, NULL)),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
  LEAST({now}, GREATEST(update_time, COALESCE(hold_until, update_time), COALESCE(paused_until, update_time))))

-- {pause} The columns of a pause, in the order of src/store/rows.hpp.
pause_key, is_prefix, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', end_time), paused_by, note,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', create_time)

-- {is_named_pause} The pause that the caller has read, and no later one of the same key or prefix: a statement may arrive
-- long after its sender has given up.
pause_key = :pause_key AND is_prefix = :is_prefix
  AND create_time = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL :made_at MICROSECOND

-- {this_server} The name of the server that answers, for people. Distinguishes servers even if they were cloned
-- with their configuration.
CONCAT(@@hostname, ':', @@port, ' (server_id ', @@server_id, ')')

-- {answering_replica} A further column: the server that answers if it is read-only, else NULL.
IF({takes_no_writes}, {this_server}, NULL)

-- {look_columns} Those of a look: a status row, the answering server if it is read-only, until when the lock is paused, and the end of the
-- last pause that covers it.
{status}, {answering_replica}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lease.paused_until),
  (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(pause.end_time)) FROM dblock_pause AS pause USE INDEX (PRIMARY) WHERE {covers})

-- {own_fence} 1 if the row called `lease` has a fence. COUNT keeps the optimizer from searching the table.
SELECT COUNT(*) FROM dblock_fence AS fence USE INDEX (PRIMARY) WHERE fence.lock_key = lease.lock_key AND fence.slot = lease.slot

-- {idle_since} The time since which a row must have been idle to be forgotten.
{now} - INTERVAL :forget_after MICROSECOND

-- {forgettable} The row is free, and old enough by each of its times and its token.
lock_value IS NULL AND update_time < {idle_since}
  AND token < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {idle_since})
  AND (keep_until IS NULL OR keep_until <= {now}) AND {not_cooling_down}

-- {idle_locks} The locks that may be forgotten. A lock is forgotten with all its rows at once, because each row
-- may know of runs that no other row knows of.
dblock_lock AS own FORCE INDEX (dblock_lock_time)
WHERE own.expire_time IS NULL AND own.update_time < {idle_since} AND own.slot = 0
  AND 0 = (SELECT COUNT(*) FROM dblock_lock FORCE INDEX (PRIMARY)
    WHERE lock_key = own.lock_key AND NOT COALESCE({forgettable}, FALSE))

-- {run} The columns of a recorded run, in the order of src/store/rules/history.cpp.
lock_key, token, lock_value, kind, mode, holder_host, holder_pid, holder_user, holder_command, holder_note,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', released_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', recorded_at), outcome, exit_code, attempts

-- {asked_runs} The runs that ended within the last :since microseconds; NULL: all. :from, :to: as in list_keys.sql.
recorded_at >= COALESCE({now} - INTERVAL :since MICROSECOND, '1970-01-01')
  AND lock_key >= :from AND (:to IS NULL OR lock_key < :to) AND (:outcome IS NULL OR outcome = :outcome)

-- {old_runs} The runs that may be forgotten. Uses the index on the time, whatever the optimizer estimates.
dblock_history FORCE INDEX (dblock_history_time) WHERE recorded_at < {idle_since}

-- {modes} The sql_mode of every session.
'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'

-- {presence} The name of the named lock that a request's session owns: by it others notice the session's end. A hash, because names
-- have at most 64 characters and ignore letter case. It covers the schema too, because named locks belong to the whole server.
CONCAT('dblock.', LEFT(SHA2(CONCAT(DATABASE(), '/', :owner), 256), 48))

-- {place} The columns of a place, in the order of src/store/rows.hpp.
place.lock_key, place.owner_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', place.arrival), place.mode, place.slots,
place.waits_elsewhere, place.line, place.waiter_host, place.waiter_pid, place.waiter_user, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', place.seen_until)

-- {new_end} Until when a place counts that is written now.
{now} + INTERVAL :length MICROSECOND

-- {account_limit} How many sessions the account may have.
IF(@@max_user_connections > 0, @@max_user_connections, @@max_connections)

-- {account_sessions} How many sessions the account has. Every account sees its own.
(SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), '@', 1))

-- {account_is_full} The account has more than four fifths of its sessions.
(@@max_user_connections > 0 AND {account_sessions} > 0.8*@@max_user_connections)

-- {full_on_mariadb} More than four fifths of the sessions are in use that the server, or the account, may have.
{account_is_full} OR 0.8*@@max_connections <
  (SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Threads_connected')

-- {full_on_mysql} The same. MySQL keeps the table that every account may read in another schema.
{account_is_full} OR 0.8*@@max_connections <
  (SELECT variable_value FROM performance_schema.global_status WHERE variable_name = 'Threads_connected')

-- {sleep} Takes a seat, a named lock too, and sleeps until the session of the request :owner ends, but at most a year. Gives back both. `room` says
-- how many seats there are, and whether sessions are scarce. NULL: there is no seat for a request with :before others before it.
seat (number, got) AS (
  SELECT 0, 0
  UNION ALL
  SELECT seat.number + 1, GET_LOCK(CONCAT('dblock.seat.', seat.number + 1), 0)
  FROM seat JOIN room ON seat.got = 0 AND seat.number < room.seats AND :before < room.seats AND NOT room.is_full),
taken (number) AS (SELECT MAX(IF(got = 1, number, 0)) FROM seat)
SELECT IF(taken.number > 0, GET_LOCK({presence}, 31536000), NULL), room.seats, RELEASE_LOCK({presence}),
  RELEASE_LOCK(CONCAT('dblock.seat.', taken.number))
FROM taken JOIN room
