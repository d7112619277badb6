-- The waiters that the account may see, the longest wait first: each one's statement, and its wait in microseconds.
SELECT info, CAST(time_ms*1000 AS SIGNED) AS waited {of_waiters}
