-- The pauses that have not ended.
SELECT {pause} FROM dblock_pause USE INDEX (PRIMARY) WHERE end_time > {now} ORDER BY pause_key, is_prefix
