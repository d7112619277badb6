-- Notes down that a migration was applied. Error 1062: another host was faster.
INSERT INTO dblock_schema (version, serves, name, applied_at) VALUES (:version, :serves, :name, {now})
