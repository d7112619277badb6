-- The version of the tables, and the oldest dblock that they serve; zeros for empty tables.
SELECT COALESCE(MAX(version), 0), COALESCE(MAX(serves), 0) FROM dblock_schema USE INDEX (PRIMARY)
