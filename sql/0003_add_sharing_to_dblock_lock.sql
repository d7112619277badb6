-- What a lock was last granted as. One that others hold together has its holders in dblock_hold, and no owner here.
ALTER TABLE dblock_lock
  ADD COLUMN mode VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'exclusive'
    COMMENT 'of the last grant: exclusive, shared or slot; exclusive: nobody holds it in dblock_hold',
  ADD COLUMN slots INT UNSIGNED NOT NULL DEFAULT 1 COMMENT 'how many holders the last grant allowed',
  ADD COLUMN intent_until DATETIME(6) NULL COMMENT 'a writer waits: no new readers before'
