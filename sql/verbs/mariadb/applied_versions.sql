-- The migrations that were applied, and when.
SELECT version, serves, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) FROM dblock_schema USE INDEX (PRIMARY)
