-- Renews a lease. If renewed, returns a row: the TTL (the stored one if :ttl is NULL) and the end of the lease. With
-- :keep the lock cools down for at least that long from now.
UPDATE dblock_lock
SET version = version + 1, update_time = {now}, {cool_down},
  expire_time = max(expire_time, {now} + coalesce(:ttl, ttl_us)), ttl_us = coalesce(:ttl, ttl_us)
WHERE {is_named_lease} AND {this_boot} AND revoke_time IS NULL AND expire_time > {now}
RETURNING ttl_us, expire_time + {step}
