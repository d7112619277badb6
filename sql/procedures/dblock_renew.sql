-- Renews an application's lease for its TTL. `renewed`, with the time that is left; `lost`: the lease has expired, was
-- revoked or is another's, and `holder` has the lock now (NULL: nobody); `busy`: nothing was done, try again at once.
CREATE /*M! OR REPLACE */ PROCEDURE dblock_renew(
  IN p_key VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_owner VARCHAR(1024) CHARACTER SET utf8mb4)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'dblock, version {version}: renews the lock of an application; see dblock-sql(7)'
BEGIN
  {variables};
  DECLARE v_ttl BIGINT DEFAULT NULL;
  DECLARE v_caught_up BOOLEAN DEFAULT FALSE;
  {check_names};
  {enter}
  BEGIN
    {on_error};
    WHILE v_outcome IS NULL DO
      {in_doubt};
      {verb renew};
      IF ROW_COUNT() = 1 THEN
        SET v_outcome = 'renewed', v_ttl = LAST_INSERT_ID() DIV 1024;
      ELSEIF v_caught_up THEN
        SET v_outcome = 'lost';
      ELSE
        {catch_up}
      END IF;
    END WHILE;
    {look};
    SET v_token = v_latest;
    IF v_outcome = 'renewed' THEN
      SET v_remaining_ms = v_ttl DIV 1000;
    END IF;
  END;
  {leave}
  {answer};
END
