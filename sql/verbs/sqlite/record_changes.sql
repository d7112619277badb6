-- Counts a transaction that changes the store, as its last statement.
UPDATE dblock_state SET changes = :changes
