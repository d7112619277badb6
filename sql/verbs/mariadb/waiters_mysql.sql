-- As waiters_mariadb.sql. MySQL counts whole seconds. Of waiters with the same second, the one that connected first
-- comes first.
SELECT info, CAST(time*1000000 AS SIGNED) AS waited {of_waiters}
