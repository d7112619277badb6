-- For a transaction of a job or an application: an error (SQLSTATE 45000) unless the lock is held under this token.
-- Until the transaction ends, no other holder is granted the lock. Tokens only grow, and the procedure locks the fence
-- before it looks at the lease. So a job whose lock was granted again fails even if its transaction has an old snapshot.
--
-- Where several servers take writes (Galera, Group Replication), a row lock exists on one of them only. If the
-- transaction's server lagged behind, a takeover through another one came before the transaction's commit in the
-- group's order, but the two wrote no common row, so both succeeded. So there the procedure writes to the fence, and
-- certification lets only one of the two pass. Elsewhere it takes a shared lock, so that the same job may call it in
-- several transactions at once.
CREATE /*M! OR REPLACE */ PROCEDURE dblock_assert_held(
  IN p_key VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_token BIGINT UNSIGNED)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'dblock, version {version}: raises SQLSTATE 45000 unless p_token holds lock p_key; keeps others out until the transaction ends'
BEGIN
  DECLARE v_key VARBINARY(4096) DEFAULT CAST(p_key AS BINARY);
  DECLARE v_latest BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_slot INT UNSIGNED DEFAULT NULL;
  DECLARE v_why VARCHAR(200) DEFAULT NULL;
  DECLARE v_outcome VARCHAR(16) DEFAULT 'held';
  DECLARE v_token BIGINT UNSIGNED DEFAULT p_token;
  DECLARE v_remaining_ms BIGINT DEFAULT NULL;
  DECLARE v_holder VARCHAR(1000) CHARACTER SET utf8mb4 DEFAULT NULL;
  DECLARE v_isolation VARCHAR(10) DEFAULT NULL;
  IF p_key IS NULL OR p_token IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: key and token must not be NULL';
  END IF;

  -- Whoever comes too late is refused before he can stand in anybody's way. A transaction whose snapshot is older than
  -- the grant is refused as well: what it reads may be older than the last holder's work.
  SELECT MAX(token), MAX(IF(token = p_token, slot, NULL)) INTO v_latest, v_slot
    FROM dblock_fence WHERE lock_key = v_key;
  IF v_slot IS NULL AND v_latest > p_token THEN
    SIGNAL SQLSTATE '45000'
      SET MESSAGE_TEXT = 'dblock: the lock is not held under this token: it was granted again since';
  ELSEIF v_slot IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
      'dblock: the lock is not held under this token: never granted so, or after this transaction began to read';
  END IF;

  -- Whether several servers take writes. A server that was built without either does not know the variable.
  SET @dblock_group = FALSE;
  BEGIN
    DECLARE EXIT HANDLER FOR 1193 BEGIN END;
    /*M! EXECUTE IMMEDIATE 'SET @dblock_group = @@wsrep_on'; */
    /*!50701 PREPARE dblock_ask FROM 'SET @dblock_group = (@@group_replication_group_name <> '''')';
    EXECUTE dblock_ask;
    DEALLOCATE PREPARE dblock_ask; */
  END;
  IF @dblock_group THEN
    UPDATE dblock_fence SET asserted = asserted + 1 WHERE lock_key = v_key AND slot = v_slot AND token = p_token;
    IF ROW_COUNT() = 0 THEN
      SET v_slot = NULL;
    END IF;
  ELSE
    -- With innodb_snapshot_isolation the server does not lock what was changed after the snapshot, but rolls back.
    BEGIN
      DECLARE EXIT HANDLER FOR 1020 SET v_slot = NULL;
      SELECT MAX(slot) INTO v_slot FROM dblock_fence
        WHERE lock_key = v_key AND slot = v_slot AND token = p_token LOCK IN SHARE MODE;
    END;
  END IF;
  IF v_slot IS NULL THEN
    SIGNAL SQLSTATE '45000'
      SET MESSAGE_TEXT = 'dblock: the lock is not held under this token: it was granted again since';
  END IF;

  -- The lease is read without a lock, which would keep the heartbeat waiting as long as the transaction lasts. But an
  -- old snapshot shows an expiry that has been put off since: before that counts, the row itself is asked. A row that
  -- was changed after the snapshot can be asked only while innodb_snapshot_isolation, where the server has it, is off; that
  -- does no harm here, since the fence is locked already and nothing that the row says is written anywhere.
  SELECT {state_of_lease} INTO v_why, v_remaining_ms, v_holder
    FROM dblock_lock WHERE lock_key = v_key AND slot = v_slot AND token = p_token;
  IF COALESCE(v_why, 'its lease has expired') = 'its lease has expired' THEN
    /*M! SELECT MAX(variable_value) INTO v_isolation
      FROM information_schema.session_variables WHERE variable_name = 'INNODB_SNAPSHOT_ISOLATION';
    EXECUTE IMMEDIATE CONCAT(
      IF(v_isolation = 'ON', 'SET STATEMENT innodb_snapshot_isolation=OFF FOR ', ''),
      "SELECT {state_of_lease} INTO @dblock_why, @dblock_remaining, @dblock_holder
         FROM dblock_lock WHERE lock_key = ? AND slot = ? AND token = ? LOCK IN SHARE MODE") USING v_key, v_slot, p_token;
    SET v_why = @dblock_why, v_remaining_ms = @dblock_remaining, v_holder = @dblock_holder; */
    /*!50701 SELECT {state_of_lease} INTO v_why, v_remaining_ms, v_holder
      FROM dblock_lock WHERE lock_key = v_key AND slot = v_slot AND token = p_token LOCK IN SHARE MODE; */
  END IF;
  IF COALESCE(v_why, 'gone') <> '' THEN
    SET v_why = CONCAT('dblock: the lock is not held under this token: ', COALESCE(v_why, 'its row is gone'));
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_why;
  END IF;
  {answer};
END
