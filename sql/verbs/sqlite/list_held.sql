-- All leases that run.
SELECT {status} FROM dblock_lock WHERE expire_time IS NOT NULL AND {this_boot} AND expire_time > {now}
  AND (NOT :own_rows_only OR slot = 0)
ORDER BY lock_key, slot LIMIT :limit
