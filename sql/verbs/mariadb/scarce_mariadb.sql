-- Whether sessions are so scarce that holders end theirs between renewals.
SELECT {full_on_mariadb}
