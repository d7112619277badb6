-- The migrations that were applied, and when.
SELECT version, applied_at FROM dblock_schema
