UPDATE dblock_schema USE INDEX (PRIMARY) SET keeps_history = FALSE WHERE version = 1
