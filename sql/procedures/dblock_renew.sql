-- Renews an application's lease for p_ttl_ms from now, which is its TTL then, or for the TTL that it has (NULL). Never shortens
-- the lease. `renewed`, with the time that is left; `lost`: the lease has expired, was revoked or is another's, and `holder` has
-- the lock now (NULL: nobody); `busy`: nothing was done, try again at once.
CREATE /*M! OR REPLACE */ PROCEDURE dblock_renew(
  IN p_key VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_owner VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_ttl_ms BIGINT)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'dblock, version {version}: renews the lock of an application; see dblock-sql(7)'
BEGIN
  {variables};
  DECLARE v_ttl BIGINT DEFAULT NULL;
  DECLARE v_caught_up BOOLEAN DEFAULT FALSE;
  {check_names};
  IF p_ttl_ms NOT BETWEEN 1000 AND 2592000000 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: the TTL must be 1000 to 2592000000 milliseconds (1 s to 30 d); NULL: as before';
  END IF;
  SET v_ttl = p_ttl_ms * 1000;
  {enter}
  BEGIN
    {on_error};
    WHILE v_outcome IS NULL DO
      IF v_ttl IS NOT NULL THEN
        -- A client renews at a third of the TTL. Who frees a lease by force waits for two such renewals.
        UPDATE dblock_lock FORCE INDEX (PRIMARY) SET version = version + 1, heartbeat_us = v_ttl DIV 3
          WHERE {is_named_lease} AND revoke_time IS NULL AND expire_time > {now} AND heartbeat_us < v_ttl DIV 3;
      END IF;
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
      SET v_remaining_ms = GREATEST(v_ttl DIV 1000, IF(v_latest IS NULL, 0, v_remaining_ms));
    END IF;
  END;
  {leave}
  {answer};
END
