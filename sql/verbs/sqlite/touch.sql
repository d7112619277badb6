-- Writes a row as it is: makes a commit that changes nothing.
UPDATE dblock_state SET changes = changes
