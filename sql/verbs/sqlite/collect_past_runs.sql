-- When a lock becomes exclusive, copies what all its rows know of past runs into its own row (slot 0).
UPDATE dblock_lock SET {past_runs} WHERE lock_key = :key AND slot = 0
