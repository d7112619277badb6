-- Not NULL on an ONLINE member of a replication group that reaches the majority. Elsewhere the function fails (error 1123)
-- before its statement does anything. Every account may call it; MySQL before 8.0.16 does not have it.
SELECT group_replication_get_communication_protocol()
