-- Waits for the turn without a time limit, unless more than four fifths of the server's connections are in use.
SET SESSION wait_timeout = :idle, sql_mode = CONCAT({modes}, IF(
  IF((SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Threads_connected')
    > 0.8*@@max_connections, 0, {wait_for_turn}) = 1,
  {turn_mode}, '')) {announcement}
