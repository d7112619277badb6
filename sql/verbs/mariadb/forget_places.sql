-- Removes the places that count no more.
DELETE place FROM dblock_waiter AS place USE INDEX (PRIMARY) WHERE seen_until <= {now}{where_writable}
