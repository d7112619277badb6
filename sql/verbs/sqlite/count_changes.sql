-- How many changes were committed to the store.
SELECT changes FROM dblock_state
