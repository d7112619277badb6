-- Writes into the locks' own rows until when they are paused, after a pause was committed or deleted; with :without as
-- if this pause were deleted already. Waits for grants that are under way on these rows, and on Galera makes one of the
-- two fail. Where there is none, leaves when the last one ended: {long_free} counts from there. LOCK IN SHARE MODE: reads what is committed by now, so that of two such statements the later one writes the
-- last word.
UPDATE dblock_lock AS lease FORCE INDEX (PRIMARY)
SET version = {next_version},
  paused_until = COALESCE((SELECT MAX(pause.end_time) FROM dblock_pause AS pause USE INDEX (PRIMARY) WHERE {covers}
    AND NOT (:without AND {is_named_pause}) LOCK IN SHARE MODE), LEAST(COALESCE(paused_until, {now}), {now}))
WHERE lock_key IN (:keys) AND slot = 0
