-- Whether runs are recorded.
SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name = 'dblock_lock_ended'
