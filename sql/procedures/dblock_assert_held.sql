-- For a transaction of a job or an application: an error (SQLSTATE 45000) unless the lock is held under this token.
-- Until the transaction ends, no other holder is granted the lock. Tokens only grow, and the procedure locks the fence
-- under the token. So a job whose lock was granted again fails even if its transaction has an old snapshot.
--
-- The fence is all that stays locked: no renewal and no release waits for such a transaction. Under SERIALIZABLE each
-- read is a lock, and a procedure cannot tell the isolation level of the transaction that it is called in. So the lease
-- is read only in a call that is the first to read or write in its transaction: rolling back to a savepoint before the
-- read then gives back the locks too. A later call may have an old snapshot anyway; it goes by the fence alone.
--
-- Where several servers take writes (Galera, Group Replication), a row lock exists on one of them only. If the
-- transaction's server lagged behind, a takeover through another one came before the transaction's commit in the
-- group's order, but the two wrote no common row, so both succeeded. So there the procedure writes to the fence, and
-- certification lets only one of the two pass. It writes in an XA transaction as well: XA PREPARE, or a restart of the
-- server after it, lets a shared lock go, but not that of a row that was written. Elsewhere it takes a shared lock, so
-- that the same job may call it in several transactions at once.
CREATE /*M! OR REPLACE */ PROCEDURE dblock_assert_held(
  IN p_key VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_token BIGINT UNSIGNED)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'dblock, version {version}: raises SQLSTATE 45000 unless p_token holds lock p_key; keeps others out until the transaction ends'
BEGIN
  DECLARE v_key VARBINARY(4096) DEFAULT CAST(p_key AS BINARY);
  DECLARE v_slot, v_locked_slot INT UNSIGNED DEFAULT NULL;
  DECLARE v_why VARCHAR(200) DEFAULT NULL;
  DECLARE v_outcome VARCHAR(16) DEFAULT 'held';
  DECLARE v_token BIGINT UNSIGNED DEFAULT p_token;
  DECLARE v_expires DATETIME(6) DEFAULT NULL;
  DECLARE v_remaining_ms BIGINT DEFAULT NULL;
  DECLARE v_holder VARCHAR(1000) CHARACTER SET utf8mb4 DEFAULT NULL;
  DECLARE v_undone, v_undone_before BIGINT DEFAULT NULL;
  DECLARE v_is_first BOOLEAN DEFAULT FALSE;
  IF p_key IS NULL OR p_token IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: key and token must not be NULL';
  END IF;
  IF {is_misread} THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = {misread};
  END IF;
  {refuse_read_only}
  {refuse_outside_group}

  -- The server counts a rollback to a savepoint once for each storage engine that was part of the transaction at the
  -- savepoint. There are two, one before a read of the fence and one after it. If the read is what made InnoDB a part,
  -- the second counts one more than the first, and the sum is odd. (The log of a Galera node is a part from the
  -- beginning, in a session that has written before.) Where no transaction is open there is no savepoint, and nothing
  -- would stay locked.
  {undone_to_savepoints}
  SET v_undone_before = v_undone;
  SAVEPOINT dblock_asserts;
  BEGIN
    DECLARE EXIT HANDLER FOR 1305 SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: no transaction is open, so this call would protect nothing; call it in the transaction that writes';
    ROLLBACK TO SAVEPOINT dblock_asserts;
  END;

  -- A transaction whose snapshot is older than the grant is refused: what it reads may be older than the last holder's
  -- work. There is one message for smaller and greater tokens: with two, fifty calls would tell what the token is.
  SELECT MAX(slot) INTO v_slot FROM dblock_fence USE INDEX (PRIMARY) WHERE lock_key = v_key AND token = p_token AND token > 0;
  SAVEPOINT dblock_has_read;
  ROLLBACK TO SAVEPOINT dblock_has_read;
  {undone_to_savepoints}
  SET v_is_first = (v_undone - v_undone_before) % 2 = 1;
  IF v_slot IS NULL THEN
    SET v_why = {granted_again};
  ELSEIF v_is_first THEN
    SELECT MAX(CASE WHEN lock_value IS NULL THEN 'it was released' WHEN revoke_time IS NOT NULL THEN 'it was revoked'
        WHEN expire_time > {now} THEN '' ELSE 'its lease has expired' END), MAX(expire_time), MAX({holder})
      INTO v_why, v_expires, v_holder
      FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot = v_slot AND token = p_token;
    SET v_why = COALESCE(v_why, 'its row is gone');
  END IF;
  ROLLBACK TO SAVEPOINT dblock_asserts;
  IF v_why <> '' THEN
    {not_held};
  END IF;

  -- Whether several servers take writes. A server that was built without either does not know the variable.
  SET @dblock_writes = FALSE;
  BEGIN
    DECLARE EXIT HANDLER FOR 1193 BEGIN END;
    /*M! EXECUTE IMMEDIATE 'SET @dblock_writes = @@wsrep_on'; */
    /*!50701 PREPARE dblock_ask FROM 'SET @dblock_writes = (@@group_replication_group_name <> '''')';
    EXECUTE dblock_ask;
    DEALLOCATE PREPARE dblock_ask; */
  END;
  -- Whether an XA transaction is open. This ends none: of an open one it says that this is not its name (1397), else
  -- that none is open (1399).
  BEGIN
    DECLARE EXIT HANDLER FOR 1397 SET @dblock_writes = TRUE;
    DECLARE EXIT HANDLER FOR 1399 BEGIN END;
    XA END 'dblock_assert_held asks whether one is open';
  END;
  IF @dblock_writes THEN
    {in_doubt};
    UPDATE dblock_fence USE INDEX (PRIMARY) SET asserted = asserted + 1 WHERE lock_key = v_key AND slot = v_slot AND token = p_token;
    IF ROW_COUNT() = 0 THEN
      SET v_why = {granted_again};
    END IF;
  ELSE
    -- With innodb_snapshot_isolation the server does not lock what was changed after the snapshot, but rolls back.
    BEGIN
      DECLARE EXIT HANDLER FOR 1020 BEGIN END;
      SELECT MAX(slot) INTO v_locked_slot FROM dblock_fence USE INDEX (PRIMARY)
        WHERE lock_key = v_key AND slot = v_slot AND token = p_token LOCK IN SHARE MODE;
    END;
    IF v_locked_slot IS NULL THEN
      SET v_why = {granted_again};
    END IF;
  END IF;
  BEGIN
    DECLARE EXIT HANDLER FOR 1305 BEGIN END; -- rolled back, see above
    IF v_why <> '' THEN
      ROLLBACK TO SAVEPOINT dblock_asserts;
    END IF;
    RELEASE SAVEPOINT dblock_asserts;
  END;
  IF v_why <> '' THEN
    {not_held};
  END IF;
  -- It may have waited for the fence.
  SET v_remaining_ms = GREATEST(0, TIMESTAMPDIFF(MICROSECOND, {now}, v_expires) DIV 1000);
  {answer};
END
