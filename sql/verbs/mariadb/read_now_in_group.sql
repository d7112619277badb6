-- On a server with the plugin for replication groups: reads are answered at once, from what the server has applied. Else a
-- server that has left its group, or is cut off, refuses them or lets them wait where its own consistency is BEFORE.
SET SESSION group_replication_consistency = 'EVENTUAL'
