-- Lets the places of a request count for longer.
UPDATE dblock_waiter FORCE INDEX (PRIMARY) SET version = {next_version}, seen_until = {new_end}
WHERE lock_key IN (:keys) AND owner_id = :owner
