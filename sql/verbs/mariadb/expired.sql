-- Leases past expire_time + margin. The first condition is there because the index on times can serve it.
SELECT {status} FROM dblock_lock FORCE INDEX (dblock_lock_time)
WHERE expire_time <= {now} AND {past_margin} ORDER BY lock_key, slot
