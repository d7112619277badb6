-- Deletes the pauses that have ended. They are few: each new pause does this.
DELETE pause FROM dblock_pause AS pause USE INDEX (PRIMARY) WHERE end_time <= {now}
