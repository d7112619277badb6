-- Takes a named lock as a test. No other session uses its name, and the session's end frees it.
SELECT GET_LOCK(CONCAT('dblock.doctor.', CONNECTION_ID()), 0)
