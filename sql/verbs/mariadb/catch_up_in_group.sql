-- Fails (error 1123) unless the server is an ONLINE member of a replication group. On a member, each statement of the session
-- then waits until the member has applied what the others have committed before.
SET SESSION group_replication_consistency = IF({membership} IS NULL
  OR @@SESSION.group_replication_consistency IN ('AFTER', 'BEFORE_AND_AFTER'), 'BEFORE_AND_AFTER', 'BEFORE')
