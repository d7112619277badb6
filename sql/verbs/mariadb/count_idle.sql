-- Rows that may be forgotten.
SELECT COUNT(*) FROM {idle_rows}
