-- What the statements of this folder have in common. `{name}` in a statement stands for the text that follows the
-- name here; `:name` is a parameter (src/store/verbs.hpp). Every statement knows the moment: :boot and :wall are
-- microseconds by the boot clock and by the wall clock, :offset the distance between them, :boot_id names the boot.
--
-- Each statement that decides something is one transaction, or part of one, so that no writer comes between its
-- condition and its change. Deadlines are compared on the lease's own time line (sql/sqlite/0001_create_tables.sql).

-- {now} The present on the time line of the row's lease; of a lease of another boot nothing is known but that it is
-- over.
(:boot + boot_offset_us)

-- {seen} The boot clock had come to this when the row was last changed.
(update_time - boot_offset_us)

-- {this_boot} Two ids of which one is a container's own may be of one boot. In a later boot the wall clock is further
-- from the boot clock, by more than {seen}; or, on a machine whose wall clock begins anew with each boot, the row is
-- of another boot until its boot clock has come to {seen}.
(boot_id = :boot_id OR (instr(boot_id || :boot_id, '*') > 0
  AND {seen} <= :boot AND abs(:offset - boot_offset_us) < {seen}))

-- {past_margin} Nobody can believe any more that this lease is theirs.
(NOT {this_boot} OR expire_time + margin_us <= {now})

-- {hold_is_over} No cooldown keeps the lock. One with more than twice its length to go was promised by a clock that
-- has been set back since.
(hold_until IS NULL OR hold_until <= :wall OR hold_until - :wall > 2 * (hold_until - create_time))

-- {not_done} No success of this key is dated within the period, or none is asked for. By the wall clock: what a
-- period means to people, and it outlives the boot. See src/lease/promises.hpp.
(:period IS NULL OR success_acquired_at IS NULL OR success_acquired_at <= :wall - :look_back
  OR success_acquired_at > :wall + :look_ahead)

-- {is_ref} The lease that the caller names: in the one row that is known, or in any row of the key.
lock_key = :key AND slot BETWEEN :first_slot AND :last_slot AND lock_value = :owner
  AND (:token IS NULL OR token = :token) AND (NOT :script OR kind = 'acquire')

-- {step} A step of the wall clock since the grant, which shows in what people see, and in the record of the run, and
-- nowhere else. 100 ms is k_least_clock_step of boot.hpp: less is the jitter of reading two clocks.
iif({this_boot} AND lock_value IS NOT NULL AND abs(:offset - boot_offset_us) >= 100000, :offset - boot_offset_us, 0)

-- {freed_at} When the row is freed, to people.
iif({this_boot}, {now} + {step}, :wall)

-- {freed} Frees the row.
version = version + 1, update_time = {freed_at}, last_acquired_at = create_time + {step}, lock_value = NULL,
expire_time = NULL, revoke_time = NULL

-- {ended} What the end of a run says of it. Only a success touches the last success.
last_released_at = {freed_at}, last_outcome = :outcome, last_exit_code = :exit_code,
success_acquired_at = iif(:outcome = 'succeeded', create_time + {step}, success_acquired_at),
success_released_at = iif(:outcome = 'succeeded', {freed_at}, success_released_at)

-- {nested_is_null} 0, or NULL where a nested run holds the lease as well: the column refuses that, which undoes the
-- whole statement.
iif(NOT :leaves_nested OR lock_count < 2 OR NOT {this_boot} OR expire_time <= {now}, 0, NULL)

-- {granted} What a grant changes in a row, besides its token. It records for the last holder what that did not say
-- itself, and the row is kept long enough for a success to be found in it.
last_acquired_at = iif(lock_value IS NULL, last_acquired_at, create_time + {step}),
last_released_at = iif(lock_value IS NULL, last_released_at, NULL),
last_outcome = iif(lock_value IS NULL, last_outcome, 'abandoned'),
last_exit_code = iif(lock_value IS NULL, last_exit_code, NULL),
version = version + 1, lock_value = :owner, boot_id = :boot_id, boot_offset_us = :offset, create_time = :wall,
update_time = :wall, expire_time = :wall + :ttl, lock_count = 1, kind = :kind, ttl_us = :ttl, margin_us = :margin,
heartbeat_us = :heartbeat, hold_until = :wall + :min_hold,
keep_until = iif(:period IS NULL, keep_until, max(coalesce(keep_until, 0), :wall + :period)),
revoke_time = NULL, holder_host = :host, holder_pid = :pid, holder_user = :user, holder_command = :command,
holder_note = :note, mode = :mode, slots = :slots

-- {status} The columns of a status row, in the order of src/store/rows.cpp. A lease of another boot ended, at the
-- latest, when that boot did, and needs no margin.
lock_key, lock_value, token, lock_count, kind, holder_host, holder_pid, holder_user, holder_command, holder_note,
create_time + {step}, update_time + {step}, iif({this_boot}, expire_time + {step}, min(expire_time, :wall - :boot)),
revoke_time + {step}, iif({hold_is_over}, NULL, hold_until), ttl_us,
iif({this_boot} OR lock_value IS NULL, margin_us, 0), heartbeat_us, last_acquired_at, last_released_at, last_outcome,
last_exit_code, success_acquired_at, success_released_at,
iif({this_boot} AND lock_value IS NOT NULL, {now} + {step}, :wall), mode, slots, slot,
iif({this_boot}, intent_until + :offset - boot_offset_us, NULL)

-- {wanted} The rows that a listing asks for, among those of its keys.
(NOT :held_only OR (expire_time IS NOT NULL AND {this_boot} AND expire_time > {now})) AND (NOT :gates_only OR slot = 0)

-- {forgettable} Old enough by every mark the row carries.
lock_value IS NULL AND update_time < :wall - :forget_after AND token < :wall - :forget_after
  AND (keep_until IS NULL OR keep_until <= :wall) AND {hold_is_over}

-- {idle_locks} A lock is forgotten as a whole: each of its rows may know of runs that no other row knows of.
dblock_lock AS gate WHERE slot = 0 AND update_time < :wall - :forget_after
  AND NOT EXISTS(SELECT 1 FROM dblock_lock WHERE lock_key = gate.lock_key AND ({forgettable}) IS NOT TRUE)

-- {run} The columns of a recorded run, in the order of src/store/past_runs.hpp.
lock_key, token, lock_value, kind, mode, holder_host, holder_pid, holder_user, holder_command, holder_note, acquired_at,
released_at, recorded_at, outcome, exit_code

-- {asked_runs} Those that ended within the time that is asked for.
recorded_at >= :wall - coalesce(:since, :wall)

-- {old_runs} Found by the index on the time.
dblock_history INDEXED BY dblock_history_time WHERE recorded_at < :wall - :forget_after
