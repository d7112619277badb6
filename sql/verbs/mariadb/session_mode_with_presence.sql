-- Part of the statement that sets a session up: the value of sql_mode. Also takes the named lock of the session's request.
CONCAT({modes}, IF(GET_LOCK({presence}, 0) = 1, '', ''))
