-- Renews a lease. If renewed, returns a row: the TTL (the stored one if :ttl is NULL) and the end of the lease. With
-- :cooldown the lock cools down for at least that long from now. With :tells_job the row tells when the holder's command ended;
-- not any more, if :ended_ago is NULL.
UPDATE dblock_lock
SET version = version + 1, update_time = {now}, {cool_down},
  job_ended_at = iif(:tells_job, {now} + {step} - :ended_ago, job_ended_at), job_ended_token = iif(:tells_job, token, job_ended_token),
  expire_time = max(expire_time, {now} + coalesce(:ttl, ttl_us)), ttl_us = coalesce(:ttl, ttl_us)
WHERE {is_named_lease} AND {this_boot} AND revoke_time IS NULL AND expire_time > {now}
RETURNING ttl_us, expire_time + {step}
