-- Removes a nested run from the lease's count. The holder itself stays counted.
UPDATE dblock_lock SET version = version + 1, lock_count = max(lock_count - 1, 1) WHERE {is_named_lease}
