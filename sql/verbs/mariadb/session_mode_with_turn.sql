-- Part of the statement that sets a session up: the value of sql_mode, which takes the turn if the turnstile is free.
CONCAT({modes}, IF(GET_LOCK({named_lock}, 0) = 1, {turn_mode}, ''))
