-- As scarce_mariadb.sql.
SELECT {full_on_mysql}
