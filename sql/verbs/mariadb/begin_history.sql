UPDATE dblock_schema USE INDEX (PRIMARY) SET keeps_history = TRUE WHERE version = 1
