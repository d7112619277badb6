-- The procedures that are installed, as far as this account may see them, and their versions.
SELECT ROUTINE_NAME, CAST(REGEXP_SUBSTR(ROUTINE_COMMENT, '[0-9]+') AS UNSIGNED) FROM information_schema.ROUTINES
WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_TYPE = 'PROCEDURE' AND ROUTINE_COMMENT LIKE 'dblock_ version %'
