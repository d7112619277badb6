-- Sleeps behind another request, in the one statement for the whole time. A fifth of the smallest limit may sleep, so that holders
-- and others find sessions, and a pool's threads.
WITH RECURSIVE room (seats, is_full) AS (
  SELECT LEAST(500, GREATEST(1, FLOOR(LEAST(@@max_connections, {account_limit},
      IF(@@thread_handling = 'pool-of-threads', @@thread_pool_max_threads, @@max_connections)) / 5))),
    {account_is_full} OR 0.8*@@max_connections <
      (SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Threads_connected')),
{sleep}
