-- Renews a lease. If one row changed, it is renewed, and the reply tells the TTL: :ttl, or the stored one if
-- :ttl is NULL. So the heartbeat learns the stored TTL without a second statement. With :cooldown the lock
-- cools down for at least that long from now. With :tells_job the row tells when the holder's command ended;
-- not any more, if :ended_ago is NULL.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET version = {next_version}, update_time = {now}{cool_down}[tells_job|,
  job_ended_at = {now} - INTERVAL :ended_ago MICROSECOND, job_ended_token = token],
  expire_time = GREATEST(expire_time, {now} + INTERVAL COALESCE(:ttl, ttl_us) MICROSECOND),
  ttl_us = LAST_INSERT_ID(COALESCE(:ttl, ttl_us) * 1024 + :mark) DIV 1024
WHERE {is_named_lease} AND revoke_time IS NULL AND expire_time > {now}
