-- Part of the statement that sets a session up: the value of sql_mode.
{modes}
