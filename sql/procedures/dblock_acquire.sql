-- Grants the lock to an application, exclusively, for p_ttl_ms. `granted`: it is held under `token` for `remaining_ms`.
-- `held`: `holder` has it, for `remaining_ms` unless it renews; or it is paused, and `holder` says so; or others come first.
-- `busy`: nothing was done, because a transaction keeps the lock's row or fence. Repeated under the same owner id while that
-- lease runs, it returns the same token again. A caller that is told `held` has a place in the line for p_patience_ms from
-- then on. It keeps that place, and renews it, by repeating the call.
CREATE /*M! OR REPLACE */ PROCEDURE dblock_acquire(
  IN p_key VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_owner VARCHAR(1024) CHARACTER SET utf8mb4,
  IN p_ttl_ms BIGINT,
  IN p_margin_ms BIGINT,
  IN p_patience_ms BIGINT,
  IN p_note TEXT CHARACTER SET utf8mb4)
  MODIFIES SQL DATA
  SQL SECURITY DEFINER
  COMMENT 'dblock, version {version}: takes a lock for an application; see dblock-sql(7)'
BEGIN
  {variables};
  DECLARE v_kind VARCHAR(16) DEFAULT 'sql';
  DECLARE v_ttl, v_margin, v_heartbeat, v_min_hold BIGINT DEFAULT NULL;
  DECLARE v_user, v_host, v_command, v_note, v_name VARCHAR(1000) CHARACTER SET utf8mb4 DEFAULT '';
  DECLARE v_pid, v_round, v_kept INT DEFAULT 0;
  DECLARE v_mode VARCHAR(16) DEFAULT NULL;
  DECLARE v_ours, v_is_free, v_is_new, v_was_new, v_is_lined, v_in_line, v_lasts BOOLEAN DEFAULT FALSE;
  DECLARE v_replaceable, v_waits_elsewhere, v_caught_up BOOLEAN DEFAULT FALSE;
  DECLARE v_arrival, v_place_ends, v_length, v_freed BIGINT DEFAULT NULL;
  DECLARE v_line VARCHAR(16) DEFAULT 'fifo';
  DECLARE v_slots INT DEFAULT 1;
  DECLARE v_version BIGINT UNSIGNED DEFAULT NULL;

  {check_names};
  SET v_margin = COALESCE(p_margin_ms, LEAST(3000, p_ttl_ms DIV 10));
  SET v_why = CASE
    WHEN p_ttl_ms IS NULL OR p_ttl_ms NOT BETWEEN 1000 AND 2592000000 THEN
      'dblock: the TTL must be 1000 to 2592000000 milliseconds (1 s to 30 d)'
    WHEN v_margin NOT BETWEEN 0 AND p_ttl_ms THEN
      'dblock: the margin must be 0 milliseconds to the TTL; NULL: 3000, or a tenth of the TTL when that is less'
    WHEN p_patience_ms NOT BETWEEN 0 AND 3600000 THEN
      'dblock: the patience must be 0 to 3600000 milliseconds (1 h); NULL: 0'
    END;
  IF v_why IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_why;
  END IF;
  -- A client renews at a third of the TTL. The random part of the owner id is not for people.
  SET v_ttl = p_ttl_ms * 1000, v_margin = v_margin * 1000, v_heartbeat = v_ttl DIV 3,
    v_note = LEFT(COALESCE(p_note, ''), 1000), v_command = CONCAT('connection ', CONNECTION_ID(), ' of ', USER()),
    v_name = REGEXP_REPLACE(CONVERT(v_owner USING utf8mb4),
      '[-/:._]?([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$', '');
  SET v_name = IF(v_name = '', CONVERT(v_owner USING utf8mb4), v_name);
  SET v_user = IF(v_name LIKE '%@_%', SUBSTRING_INDEX(v_name, '@', 1), ''),
    v_host = IF(v_name LIKE '%@_%', SUBSTR(v_name, CHAR_LENGTH(SUBSTRING_INDEX(v_name, '@', 1)) + 2), v_name);
  {enter}

  BEGIN
    {on_error};
    IF p_patience_ms > 0 THEN
      {find_place};
      SET v_in_line = v_arrival IS NOT NULL;
    END IF;
    WHILE v_outcome IS NULL AND v_round < 5 DO
      SET v_round = v_round + 1;
      {in_doubt};
      IF v_is_new THEN
        {verb first_grant};
      ELSEIF v_in_line THEN
        {verb grant_in_line};
      ELSE
        {verb grant};
      END IF;
      IF ROW_COUNT() > 0 THEN
        SET v_outcome = 'granted', v_token = LAST_INSERT_ID() DIV 1024, v_remaining_ms = p_ttl_ms;
      ELSE
        SET v_was_new = v_is_new;
        IF NOT v_caught_up THEN
          {catch_up}
        END IF;
        SELECT MAX(mode), MAX(COALESCE(lock_value = v_owner AND expire_time > {now}, FALSE)), MAX(COALESCE({is_free} AND (token > 0 OR {no_pause}), FALSE)),
            COALESCE(MAX(token) = 0, TRUE), MAX((NOT {nobody_waits} OR token = 0) AND ({own_fence}) > 0)
          INTO v_mode, v_ours, v_is_free, v_is_new, v_is_lined FROM dblock_lock AS lease USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot = 0;
        IF v_mode IS NULL THEN
          BEGIN
            DECLARE CONTINUE HANDLER FOR 1062 BEGIN END;
            {verb add_row};
            {verb add_fence};
          END;
        ELSEIF v_ours THEN
          -- A repeat after a lost reply. What was read may be old on a node that lags behind: a write proves it.
          {in_doubt};
          UPDATE dblock_lock FORCE INDEX (PRIMARY)
            SET version = version + 1, token = LAST_INSERT_ID(token)
            WHERE {is_named_lease} AND revoke_time IS NULL AND expire_time > {now};
          IF ROW_COUNT() = 1 THEN
            SET v_token = LAST_INSERT_ID();
            {look};
            SET v_outcome = 'granted';
          ELSE
            SET v_outcome = 'held';
          END IF;
        ELSEIF v_mode <> 'exclusive' THEN
          {become_exclusive}
        ELSEIF v_is_free AND v_is_lined AND v_in_line AND v_is_new = v_was_new THEN
          -- Others come first. In the line of a lock that was never granted they may stand without a mark in its row.
          SET v_outcome = 'held';
        ELSEIF v_is_free AND v_is_lined THEN
          SET v_in_line = TRUE;
        ELSEIF v_is_free THEN
          -- It was released meanwhile, or its fence is missing.
          BEGIN
            DECLARE CONTINUE HANDLER FOR 1062 BEGIN END;
            {verb add_fence};
          END;
        ELSE
          SET v_outcome = 'held';
        END IF;
      END IF;
    END WHILE;
    IF v_outcome = 'granted' AND v_in_line THEN
      -- The lock is held: what goes wrong here costs others three seconds at most.
      BEGIN
        DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
        -- A caller without a place arrived at the grant. Waiters that arrived later keep their places.
        IF v_arrival IS NULL THEN
          SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(arrived_at)) INTO v_arrival FROM dblock_lock USE INDEX (PRIMARY) WHERE {is_named_lease};
        END IF;
        {verb pass_line};
      END;
    END IF;
    IF v_outcome = 'held' AND p_patience_ms > 0 THEN
      {wait_in_line}
    END IF;
    IF v_outcome = 'held' AND v_remaining_ms IS NULL THEN
      {look};
    END IF;
    IF v_outcome = 'held' AND COALESCE(v_remaining_ms, 0) = 0 THEN
      {look_at_pause};
    END IF;
  END;
  {leave}
  IF v_outcome = 'granted' THEN
    SET v_holder = CONCAT(IF(v_user = '', '', CONCAT(v_user, '@')), v_host);
  ELSE
    SET v_outcome = COALESCE(v_outcome, 'busy');
  END IF;
  {answer};
END
