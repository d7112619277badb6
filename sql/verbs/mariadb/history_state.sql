-- Whether runs are recorded, and the server's time.
SELECT {keeps_history}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now})
