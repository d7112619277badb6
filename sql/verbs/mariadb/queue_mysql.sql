-- As queue_mariadb.sql. MySQL keeps the table that every account may read in another schema.
SET SESSION wait_timeout = :idle, sql_mode = CONCAT({modes}, IF(
  IF((SELECT variable_value FROM performance_schema.global_status WHERE variable_name = 'Threads_connected')
    > 0.8*@@max_connections, 0, {wait_for_turn}) = 1,
  {turn_mode}, '')) {announcement}
