-- Counts dblock_assert_held(), as far as this account may see it.
SELECT COUNT(*) FROM information_schema.ROUTINES
WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME = 'dblock_assert_held'
