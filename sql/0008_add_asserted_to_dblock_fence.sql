-- What dblock_assert_held() changes on a Galera cluster, to have its transaction and a takeover certified against each
-- other.
ALTER TABLE dblock_fence
  ADD COLUMN asserted BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'counts up on Galera; the number says nothing'
