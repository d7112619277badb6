SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'dblock_history'
