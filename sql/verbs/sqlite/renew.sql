-- One row with the granted length, which without :ttl is the stored one, and the end of the lease: renewed.
UPDATE dblock_lock
SET version = version + 1, update_time = {now},
  expire_time = max(expire_time, {now} + coalesce(:ttl, ttl_us)), ttl_us = coalesce(:ttl, ttl_us)
WHERE {is_ref} AND {this_boot} AND revoke_time IS NULL AND expire_time > {now}
RETURNING ttl_us, expire_time + {step}
