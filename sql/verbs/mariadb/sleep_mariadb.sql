-- Sleeps behind another request, in the one statement for the whole time. A fifth of the smallest limit may sleep, so that holders
-- and others find sessions, and a pool's threads.
WITH RECURSIVE room (seats, is_full) AS (
  SELECT LEAST(500, GREATEST(1, FLOOR(LEAST(@@max_connections, {account_limit},
      IF(@@thread_handling = 'pool-of-threads', @@thread_pool_max_threads, @@max_connections)) / 5))),
    {full_on_mariadb}),
{sleep}
