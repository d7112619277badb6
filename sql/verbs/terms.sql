-- Parts that the statements of both folders share: the rule by which a lock is granted, told once. What its conditions are in
-- numbers and on which clock, the folder's own terms.sql says. Both files may name each other's terms.

-- {is_free} The row called `lease` can be granted to an exclusive holder, whoever waits. Only for a lock whose last grant was exclusive:
-- whether readers or holders of slots are gone is not in this row.
mode = 'exclusive' AND (lock_value IS NULL OR {past_margin}) AND {not_cooling_down}{not_done} AND {not_paused}

-- {our_turn} Nobody who waits for the row called `lease` stands before the caller; or the lock has been free for long, so that it goes to
-- whoever asks. A waiter with line = 'newest' leaves for another one, but not for a request that does not wait. Sub-queries are safe
-- here, because they only refuse.
({long_free} OR 0 = (SELECT COUNT(*) FROM {places}
    WHERE place.lock_key = lease.lock_key AND place.owner_id <> :owner AND {counts}
      AND (place.line <> 'newest' OR :arrival IS NULL)
      AND (place.arrival < {arrival} OR (place.arrival = {arrival} AND place.owner_id < :owner))))
  {not_outrun}

-- {place_in_look} A place, with NULLs for the further columns of a look.
{place}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
