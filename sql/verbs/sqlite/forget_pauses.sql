-- Deletes the pauses whose end {long_free} needs no more. They are few: each new pause does this.
DELETE FROM dblock_pause WHERE end_time <= :wall - 3000000
