-- Writes into the locks' own rows that somebody waits, after the place was committed. A grant that comes to the row later reads the
-- line.
UPDATE dblock_lock FORCE INDEX (PRIMARY)
SET version = {next_version}, line_until = GREATEST(COALESCE(line_until, {new_end}), {new_end})
WHERE lock_key IN (:keys) AND slot = 0
