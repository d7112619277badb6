-- Releases an application's lease. `released`; `lost`: it had ended before, and `holder` has the lock now (NULL: nobody).
-- After a lost reply a repeat answers `lost`, too. A caller that waits gives up its place in the line, and is told `lost`.
CREATE /*M! OR REPLACE */ PROCEDURE dblock_release(
  IN p_key VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_owner VARCHAR(1024) CHARACTER SET utf8mb4)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'dblock, version {version}: releases the lock of an application; see dblock-sql(7)'
BEGIN
  {variables};
  DECLARE v_kind VARCHAR(16) DEFAULT 'sql';
  DECLARE v_mode VARCHAR(16) DEFAULT 'exclusive';
  DECLARE v_user, v_host, v_command, v_note VARCHAR(1000) CHARACTER SET utf8mb4 DEFAULT '';
  DECLARE v_pid, v_exit_code, v_attempts INT DEFAULT NULL;
  DECLARE v_was_released BOOLEAN DEFAULT TRUE;
  DECLARE v_is_recorded, v_caught_up BOOLEAN DEFAULT FALSE;
  {check_names};
  {enter}
  BEGIN
    {on_error};
    WHILE v_outcome IS NULL DO
      SELECT MAX(token) INTO v_token FROM dblock_lock USE INDEX (PRIMARY) WHERE {is_named_lease};
      SET v_outcome = 'released';
      {in_doubt};
      {verb release};
      IF ROW_COUNT() = 1 THEN
        SET v_is_recorded = LAST_INSERT_ID() > 0;
      ELSEIF v_caught_up THEN
        SET v_outcome = 'lost';
        {verb leave_line};
        {look};
        SET v_token = v_latest;
      ELSE
        SET v_outcome = NULL;
        {catch_up}
      END IF;
    END WHILE;
    IF v_is_recorded THEN
      -- The lock is free: what goes wrong here costs a record and nothing else.
      BEGIN
        DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
        {verb record_run};
      END;
    END IF;
  END;
  {leave}
  {answer};
END
