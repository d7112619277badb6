-- Takes a lock for one exclusive holder, where nobody waits. If it returns a row with the token, the lock is granted. If
-- none, the lock is held, cooling down, paused, waited for (grant_in_line.sql), done within the period, was last granted in another
-- mode, or has no row. It need not look at the lock's other rows: in mode 'exclusive' none of them has a holder.
{grant} AND {nobody_waits}
RETURNING token
