-- How many sessions the account may have at a time (0: no limit of its own), and how many it has.
SELECT @@max_user_connections, {account_sessions}
