DELETE FROM dblock_schema WHERE version = 0
