-- As sleep_mariadb.sql. MySQL keeps the table that every account may read in another schema.
WITH RECURSIVE room (seats, is_full) AS (
  SELECT LEAST(500, GREATEST(1, FLOOR(LEAST(@@max_connections, {account_limit}) / 5))),
    {account_is_full} OR 0.8*@@max_connections <
      (SELECT variable_value FROM performance_schema.global_status WHERE variable_name = 'Threads_connected')),
{sleep}
