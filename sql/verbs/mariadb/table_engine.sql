-- The storage engine of one of dblock's tables.
SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :table
