-- Removes a nested run from the lease's count. The holder itself stays counted.
UPDATE dblock_lock FORCE INDEX (PRIMARY) SET version = {next_version}, lock_count = GREATEST(lock_count, 2) - 1
WHERE {is_named_lease}
