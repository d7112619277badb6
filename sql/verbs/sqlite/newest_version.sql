-- The version of the tables, and the oldest dblock that they serve.
SELECT max(version), max(serves) FROM dblock_schema
