-- Takes a named lock of the schema, waiting for at most 3 s; the session's end frees it.
SELECT GET_LOCK(CONCAT('dblock.migrate.', LEFT(SHA2(DATABASE(), 256), 48)), 3)
