-- As set_idle_time.sql, with the server's own setting.
SET SESSION wait_timeout = DEFAULT
