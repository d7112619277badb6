-- Parts that the statements of this folder share. `{name}` in a statement stands for the text that follows the
-- name here or in ../terms.sql; `:name` is a parameter (src/store/verbs.hpp). Every statement gets the present moment: :boot and
-- :wall are microseconds by the boot clock and by the wall clock, :offset is the distance between them,
-- :boot_id names the boot.
--
-- Each statement that decides something is one transaction, or part of one, so that no other writer comes
-- between its condition and its change. Deadlines are compared on the lease's own time line
-- (sql/sqlite/0001_create_tables.sql).

-- {now} The present on the time line of the row's lease. Meaningless for a lease of another boot: it is over.
(:boot + boot_offset_us)

-- {boot_clock_at_change} The boot clock's value when the row was last changed.
(update_time - boot_offset_us)

-- {this_boot} The row was last granted in this boot. If one of two different ids is a container's own ('*'),
-- both may be of one boot, and the clocks decide. In a later boot the wall clock is farther from the boot
-- clock, by more than {boot_clock_at_change}. On a machine whose wall clock starts anew with each boot, a row of an earlier
-- boot is recognized until the boot clock has reached {boot_clock_at_change}.
(boot_id = :boot_id OR (instr(boot_id || :boot_id, '*') > 0
  AND {boot_clock_at_change} <= :boot AND abs(:offset - boot_offset_us) < {boot_clock_at_change}))

-- {past_margin} The lease margin is over too: no process can still believe that it holds this lease.
(NOT {this_boot} OR expire_time + margin_us <= {now})

-- {hold_is_too_long} The cooldown would last for more than twice the length that was asked for: the wall clock was set
-- back since. False where the length is not known: then the cooldown counts.
coalesce(hold_until - :wall > 2 * hold_us, 0)

-- {not_cooling_down} The lock is not cooling down. Never NULL.
(hold_until IS NULL OR hold_until <= :wall OR {hold_is_too_long})

-- {not_done} A condition more: the caller names no period, or the key has no success dated within it (src/lease/promises.hpp). By
-- the wall clock: people mean that by a period, and it outlives the boot.
AND (:period IS NULL OR success_acquired_at IS NULL OR success_acquired_at <= :wall - :look_back
  OR success_acquired_at > :wall + :look_ahead)

-- {pause_end} The end of the last pause that covers the row's key, or did; NULL: none is known.
(SELECT max(end_time) FROM dblock_pause WHERE pause_key = iif(is_prefix, substr(lock_key, 1, length(pause_key)), lock_key))

-- {not_paused} No pause covers the row.
coalesce({pause_end}, 0) <= :wall

-- {pause} The columns of a pause, in the order of src/store/rows.hpp.
pause_key, is_prefix, end_time, paused_by, note, create_time

-- {is_named_lease} The lease that the caller names: in one row if the caller knows its slot, else in any row of the
-- key.
lock_key = :key AND slot BETWEEN :first_slot AND :last_slot AND lock_value = :owner
  AND (:token IS NULL OR token = :token) AND (:of_kind IS NULL OR kind = :of_kind)

-- {step} The step of the wall clock since the grant. It corrects the times that people see and the record of
-- the run, nothing else. Less than 100 ms (k_least_clock_step in boot.hpp) is the jitter of reading two clocks.
iif({this_boot} AND lock_value IS NOT NULL AND abs(:offset - boot_offset_us) >= 100000, :offset - boot_offset_us, 0)

-- {freed_at} The time at which the row is freed, as people see it.
iif({this_boot}, {now} + {step}, :wall)

-- {free_row} Frees the row.
version = version + 1, update_time = {freed_at}, last_acquired_at = create_time + {step}, lock_value = NULL,
expire_time = NULL, revoke_time = NULL, revoked_by = NULL

-- {record_end} Records the end of a run. Only a success changes the last success. Some ends are neither a failure nor a
-- success, and leave the count as it is.
failures = iif(:is_success, 0, failures + :is_failure),
last_released_at = {freed_at}, last_outcome = :outcome, last_exit_code = :exit_code, last_attempts = :attempts,
success_acquired_at = iif(:is_success, create_time + {step}, success_acquired_at),
success_released_at = iif(:is_success, {freed_at}, success_released_at)

-- {record_abandoned} Records the end of a run that nobody released. Its statement says when that was, where it is known.
last_outcome = 'abandoned', last_exit_code = NULL, last_attempts = NULL, failures = failures + (kind = 'run')

-- {past_runs} What a row knows of past runs, as the caller has found it.
last_acquired_at = :last_acquired, last_released_at = :last_released, last_outcome = :last_outcome,
last_exit_code = :last_exit_code, failures = :failures, success_acquired_at = :success_acquired,
success_released_at = :success_released

-- {keeps_longer} A cooldown of :cooldown from now replaces the row's cooldown, which ends sooner or does not count. No
-- cooldown follows a revocation.
:cooldown IS NOT NULL AND revoke_time IS NULL
  AND (hold_until IS NULL OR hold_until <= :wall + :cooldown OR {hold_is_too_long})

-- {cool_down} Grants the lock to nobody else for :cooldown from now.
hold_until = iif({keeps_longer}, :wall + :cooldown, hold_until), hold_us = iif({keeps_longer}, :cooldown, hold_us)

-- {nested_is_null} 0, or NULL if a nested run holds the lease too. The column refuses NULL, which undoes the
-- whole statement.
iif(NOT :leaves_nested OR lock_count < 2 OR NOT {this_boot} OR expire_time <= {now}, 0, NULL)

-- {write_grant} What a grant changes in a row, besides its token. If the last holder did not release, records that
-- its lease was abandoned. keep_until keeps the row long enough for {not_done} to find a success in it.
last_acquired_at = iif(lock_value IS NULL, last_acquired_at, create_time + {step}),
last_released_at = iif(lock_value IS NULL, last_released_at, NULL),
last_outcome = iif(lock_value IS NULL, last_outcome, 'abandoned'),
last_exit_code = iif(lock_value IS NULL, last_exit_code, NULL),
last_attempts = iif(lock_value IS NULL, last_attempts, NULL),
failures = failures + (lock_value IS NOT NULL AND kind = 'run'),
version = version + 1, lock_value = :owner, boot_id = :boot_id, boot_offset_us = :offset, create_time = :wall,
update_time = :wall, expire_time = :wall + :ttl, lock_count = 1, kind = :kind, ttl_us = :ttl, margin_us = :margin,
heartbeat_us = :heartbeat, hold_until = :wall + :min_hold, hold_us = :min_hold,
keep_until = iif(:period IS NULL, keep_until, max(coalesce(keep_until, 0), :wall + :period)),
revoke_time = NULL, revoked_by = NULL, replaceable = :replaceable, arrived_at = {arrival},
holder_host = :host, holder_pid = :pid, holder_user = :user, holder_command = :command,
holder_note = :note, mode = :mode, slots = :slots

-- {counts} The place, a row of dblock_waiter called `place`, counts: its waiter was seen lately. No place is written for more than
-- an hour, so one that would was written before the clock was set back.
place.seen_until > :wall AND place.seen_until <= :wall + 3660000000

-- {place} The columns of a place, in the order of src/store/rows.hpp.
place.lock_key, place.owner_id, place.arrival, place.mode, place.slots, place.waits_elsewhere, place.line,
place.waiter_host, place.waiter_pid, place.waiter_user, place.seen_until

-- {long_free} The row could have been granted for three seconds: who stands before the caller does not come.
(iif(lock_value IS NULL, :wall - update_time, iif({this_boot}, {now} - expire_time - margin_us, 3000000)) >= 3000000
  AND (hold_until IS NULL OR hold_until <= :wall - 3000000)
  AND coalesce({pause_end}, 0) <= :wall - 3000000)

-- {nobody_waits} Nobody else waits for the row called `lease`.
NOT EXISTS(SELECT 1 FROM {places}
  WHERE place.lock_key = lease.lock_key AND place.owner_id <> :owner AND {counts})

-- {places} The table of the places, for {our_turn}.
dblock_waiter AS place

-- {arrival} When the caller's request began to wait; one that does not wait comes now.
coalesce(:arrival, :wall)

-- {not_outrun} A condition more if the caller waits with line = 'newest': no request that came later was granted the lock.
AND (NOT :newest OR arrived_at IS NULL OR arrived_at <= {arrival})

-- {grant} The statement that takes a lock for one exclusive holder, but for who waits.
UPDATE dblock_lock AS lease SET token = max(token + 1, :wall), {write_grant} WHERE lock_key = :key AND slot = 0 AND {is_free}

-- {status} The columns of a status row, in the order of src/store/rows.hpp. A lease of an earlier boot ended
-- with that boot at the latest, and needs no margin. The last column is the latest of: the last change,
-- the end of the cooldown, the end of the pause; now at most. {long_free} counts from the same times, and from the lease's end.
lock_key, lock_value, token, lock_count, kind, holder_host, holder_pid, holder_user, holder_command, holder_note,
create_time + {step},
update_time + {step}, iif({this_boot}, expire_time + {step}, min(expire_time, :wall - :boot)),
revoke_time + {step}, iif({not_cooling_down}, NULL, hold_until), ttl_us,
iif({this_boot} OR lock_value IS NULL, margin_us, 0), heartbeat_us, last_acquired_at, last_released_at, last_outcome,
last_exit_code, failures, success_acquired_at, success_released_at,
iif({this_boot} AND lock_value IS NOT NULL, {now} + {step}, :wall), mode, slots, slot,
(SELECT max(seen_until) FROM dblock_waiter AS place WHERE place.lock_key = dblock_lock.lock_key), replaceable, revoked_by,
arrived_at, iif(job_ended_token = token, job_ended_at, NULL),
min(:wall, max(iif(lock_value IS NULL, update_time, 0), coalesce(hold_until, 0), coalesce({pause_end}, 0)))

-- {asked_for} The row is one that a listing asks for.
(NOT :held_only OR (expire_time IS NOT NULL AND {this_boot} AND expire_time > {now})) AND (NOT :own_rows_only OR slot = 0)

-- {forgettable} The row is free, and old enough by each of its times and its token.
lock_value IS NULL AND update_time < :wall - :forget_after AND token < :wall - :forget_after
  AND (keep_until IS NULL OR keep_until <= :wall) AND {not_cooling_down}

-- {idle_locks} The locks that may be forgotten. A lock is forgotten with all its rows at once, because each row
-- may know of runs that no other row knows of.
dblock_lock AS own WHERE slot = 0 AND update_time < :wall - :forget_after
  AND NOT EXISTS(SELECT 1 FROM dblock_lock WHERE lock_key = own.lock_key AND ({forgettable}) IS NOT TRUE)

-- {run} The columns of a recorded run, in the order of src/store/rules/history.cpp.
lock_key, token, lock_value, kind, mode, holder_host, holder_pid, holder_user, holder_command, holder_note, acquired_at,
released_at, recorded_at, outcome, exit_code, attempts

-- {asked_runs} The runs that ended within the last :since microseconds; NULL: all. :from, :to: as in list_keys.sql.
recorded_at >= :wall - coalesce(:since, :wall)
  AND lock_key >= :from AND (:to IS NULL OR lock_key < :to) AND (:outcome IS NULL OR outcome = :outcome)

-- {old_runs} The runs that may be forgotten, by the index on the time.
dblock_history INDEXED BY dblock_history_time WHERE recorded_at < :wall - :forget_after
