-- Lets the places of a request count for longer.
UPDATE dblock_waiter SET seen_until = :wall + :length WHERE lock_key IN (:keys) AND owner_id = :owner
