-- Rows that may be forgotten.
SELECT count(*) FROM {idle_rows}
