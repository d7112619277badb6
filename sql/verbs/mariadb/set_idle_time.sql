-- From now on the server drops this session once it is idle for so many seconds.
SET SESSION wait_timeout = :idle
