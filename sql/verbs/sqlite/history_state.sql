-- Whether runs are recorded, and the time by the wall clock.
SELECT count(*), :wall FROM sqlite_schema WHERE type = 'trigger' AND name = 'dblock_lock_ended'
