-- As sleep_mariadb.sql.
WITH RECURSIVE room (seats, is_full) AS (
  SELECT LEAST(500, GREATEST(1, FLOOR(LEAST(@@max_connections, {account_limit}) / 5))),
    {full_on_mysql}),
{sleep}
