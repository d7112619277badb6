-- Counts the view dblock_now, as far as this account may see it.
SELECT COUNT(*) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'dblock_now'
