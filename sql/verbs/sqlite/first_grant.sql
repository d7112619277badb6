-- As grant_in_line.sql: here pauses are read by every grant.
{grant} AND {our_turn}
RETURNING token
