-- Deletes a pause.
DELETE FROM dblock_pause WHERE {is_named_pause}
