-- As grant.sql, where somebody may be waiting.
{grant} AND {our_turn}
RETURNING token
