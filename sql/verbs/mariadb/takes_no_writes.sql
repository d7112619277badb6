-- 1 if the server is read-only, else 0.
SELECT {takes_no_writes}
