INSERT INTO dblock_schema (version, serves, name, applied_at) VALUES (0, 0, 'history', {now})
