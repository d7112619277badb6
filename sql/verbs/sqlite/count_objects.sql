-- Counts the file's tables, indexes and triggers: 0 in a new file.
SELECT count(*) FROM sqlite_schema
