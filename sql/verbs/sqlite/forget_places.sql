-- Removes the places that count no more.
DELETE FROM dblock_waiter WHERE seen_until <= :wall
