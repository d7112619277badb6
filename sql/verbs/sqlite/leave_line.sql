-- Gives up the places of a request.
DELETE FROM dblock_waiter WHERE lock_key IN (:keys) AND owner_id = :owner
