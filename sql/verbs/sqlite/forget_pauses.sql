-- Deletes the pauses that have ended. They are few: each new pause does this.
DELETE FROM dblock_pause WHERE end_time <= :wall
