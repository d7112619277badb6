-- Leases past expire_time + margin.
SELECT {status} FROM dblock_lock WHERE expire_time IS NOT NULL AND {past_margin} ORDER BY lock_key, slot
