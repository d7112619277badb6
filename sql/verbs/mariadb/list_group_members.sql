-- The members of the replication group by what the server believes: the state of each, and whether it is the server itself.
SELECT member_state, member_id IN (@@server_uuid, '') FROM performance_schema.replication_group_members
