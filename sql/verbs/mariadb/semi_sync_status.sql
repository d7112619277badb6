-- Names and values of the state of semi-synchronous replication.
SHOW GLOBAL STATUS LIKE 'Rpl%semi%sync%'
