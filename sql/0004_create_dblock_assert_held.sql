-- Serves: 4
-- For a job's own transaction: an error unless the lock is held under this token. Until the transaction ends,
-- no other holder is granted the lock. Tokens only grow, and the procedure locks the fence before it looks at
-- the lease. So a job whose lock was granted again fails even if its transaction has an old snapshot.
CREATE PROCEDURE dblock_assert_held(IN p_key VARBINARY(255), IN p_token BIGINT UNSIGNED)
  READS SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'raises SQLSTATE 45000 unless p_token holds lock p_key; keeps others out until the transaction ends'
BEGIN
  DECLARE v_latest BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_slot INT UNSIGNED DEFAULT NULL;
  DECLARE v_why VARCHAR(100) DEFAULT NULL;
  IF p_key IS NULL OR p_token IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: key and token must not be NULL';
  END IF;

  -- Whoever comes too late is refused before he can stand in anybody's way. A transaction whose snapshot is older than
  -- the grant is refused as well: what it reads may be older than the last holder's work.
  SELECT MAX(token), MAX(IF(token = p_token, slot, NULL)) INTO v_latest, v_slot
    FROM dblock_fence WHERE lock_key = p_key;
  IF v_slot IS NULL AND v_latest > p_token THEN
    SIGNAL SQLSTATE '45000'
      SET MESSAGE_TEXT = 'dblock: the lock is not held under this token: it was granted again since';
  ELSEIF v_slot IS NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
      'dblock: the lock is not held under this token: never granted so, or after this transaction began to read';
  END IF;

  SELECT MAX(slot) INTO v_slot FROM dblock_fence
    WHERE lock_key = p_key AND slot = v_slot AND token = p_token LOCK IN SHARE MODE;
  IF v_slot IS NULL THEN
    SIGNAL SQLSTATE '45000'
      SET MESSAGE_TEXT = 'dblock: the lock is not held under this token: it was granted again since';
  END IF;

  -- The lease is read without a lock, which would keep the heartbeat waiting as long as the transaction lasts. But an
  -- old snapshot shows an expiry that has been put off since: before that counts, the row itself is asked.
  SELECT MAX(CASE WHEN lock_value IS NULL THEN 'it was released'
                  WHEN revoke_time IS NOT NULL THEN 'it was revoked'
                  WHEN expire_time > UTC_TIMESTAMP(6) THEN ''
                  ELSE 'its lease has expired' END)
    INTO v_why FROM dblock_lock WHERE lock_key = p_key AND slot = v_slot AND token = p_token;
  IF COALESCE(v_why, 'its lease has expired') = 'its lease has expired' THEN
    SELECT MAX(CASE WHEN lock_value IS NULL THEN 'it was released'
                    WHEN revoke_time IS NOT NULL THEN 'it was revoked'
                    WHEN expire_time > UTC_TIMESTAMP(6) THEN ''
                    ELSE 'its lease has expired' END)
      INTO v_why FROM dblock_lock WHERE lock_key = p_key AND slot = v_slot AND token = p_token LOCK IN SHARE MODE;
  END IF;
  IF COALESCE(v_why, 'gone') <> '' THEN
    SET v_why = CONCAT('dblock: the lock is not held under this token: ', COALESCE(v_why, 'its row is gone'));
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_why;
  END IF;
END
