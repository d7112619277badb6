-- One row: released. Only a success touches the last success. A script's lease must not have expired; a holder leaves a
-- lease to the runs that nest in it.
UPDATE dblock_lock
SET {freed}, last_released_at = {freed_at}, last_outcome = :outcome, last_exit_code = :exit_code,
  success_acquired_at = iif(:outcome = 'succeeded', create_time + {step}, success_acquired_at),
  success_released_at = iif(:outcome = 'succeeded', {freed_at}, success_released_at)
WHERE {is_ref} AND (NOT :script OR ({this_boot} AND expire_time > {now}))
  AND (NOT :leaves_nested OR lock_count < 2 OR NOT {this_boot} OR expire_time <= {now})
