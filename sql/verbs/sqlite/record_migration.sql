-- Notes down that a migration was applied.
INSERT INTO dblock_schema (version, serves, name, applied_at) VALUES (:version, :serves, :name, :wall)
