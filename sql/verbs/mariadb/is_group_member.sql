-- Fails (error 1123) unless the server is an ONLINE member of a replication group.
SELECT {membership}
