-- As grant.sql: here pauses are read by every grant.
{grant}
