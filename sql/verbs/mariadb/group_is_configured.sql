-- 1 if the server is configured for a replication group, else 0.
SELECT COALESCE(@@group_replication_group_name, '') <> ''
