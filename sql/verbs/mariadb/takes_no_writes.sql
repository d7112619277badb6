-- One row with 1 or 0.
SELECT {takes_no_writes}
