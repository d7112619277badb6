-- 1 if the table dblock_history exists and this account may see it, else 0.
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'dblock_history'
