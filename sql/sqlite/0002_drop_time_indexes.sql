-- Only reaping looks for rows by time, and each index would cost every grant and release a page of log.
DROP INDEX dblock_lock_expiry;
DROP INDEX dblock_lock_idle;
