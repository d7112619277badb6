-- Name and value of the number of acknowledgements that a commit waits for.
SHOW GLOBAL VARIABLES LIKE 'rpl%semi%sync%wait%for%count'
