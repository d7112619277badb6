-- Parts that the procedures share, beside those of sql/verbs/mariadb/terms.sql. `{verb NAME}` stands for a statement of
-- sql/verbs/mariadb, so that a procedure decides by the same text as dblock itself. In both, `:name` becomes the
-- procedure's variable v_name. A comment of MariaDB (M!) or of MySQL (!50701) holds what only that server reads.

-- {version} The version of all procedures. A change of any of them raises it, and `dblock migrate` then replaces them.
18

-- {variables} What the statements take and most procedures do not ask for. The lock's own row is the only
-- row, since an application takes the whole lock.
DECLARE v_key, v_keys, v_owner VARBINARY(4096) DEFAULT NULL;
DECLARE v_of_kind VARCHAR(16) DEFAULT 'sql';
DECLARE v_slot, v_first_slot, v_last_slot, v_mark INT DEFAULT 0;
DECLARE v_token, v_latest BIGINT UNSIGNED DEFAULT NULL;
DECLARE v_outcome, v_why VARCHAR(200) DEFAULT NULL;
DECLARE v_holder VARCHAR(1000) CHARACTER SET utf8mb4 DEFAULT NULL;
DECLARE v_remaining_ms BIGINT DEFAULT NULL;
DECLARE v_isolation VARCHAR(30) DEFAULT NULL;
DECLARE v_completion VARCHAR(20) DEFAULT NULL;
DECLARE v_read_only, v_row_wait, v_table_wait, v_isolated INT DEFAULT NULL;
DECLARE v_new_names BOOLEAN DEFAULT TRUE

-- {late_byte} In hexadecimal digits of UTF-8: a character for which latin1, which is cp1252 to servers, has a byte 80 to BF.
(C2[89AB].|C59[23]|C5A[01]|C5B[8DE]|C692|CB86|CB9C|E280(9[3489ACDE]|A[0126]|B[09A])|E282AC|E284A2)

-- {is_misread} Whether the key is UTF-8 that was read as latin1, as from a session that calls its UTF-8 latin1: `büro` has become
-- `bÃ¼ro`, which would silently be another lock. Each character beyond ASCII is part of a sequence of UTF-8 then. Few
-- other texts are so. A conversion to latin1 would tell as well, but on MariaDB it fails where there is none.
(LENGTH(v_key) > CHAR_LENGTH(p_key) AND CHAR_LENGTH(p_key) <= 255
  AND HEX(v_key) REGEXP '^([0-7].|C3(8[2-9A-F]|9.|(A.|B[0-4]{late_byte}){late_byte}){late_byte})+$')

-- {misread} The refusal of such a key.
'dblock: this key is UTF-8 read as latin1, so it would be another lock; SET NAMES utf8mb4, and encode the key once'

-- {check_names} The rules of dblock's keys, and owner ids that fit their column. In hexadecimal digits, so that no
-- collation decides. Longer parameters than these cannot have been cut to pass.
SET v_key = CAST(p_key AS BINARY), v_keys = v_key, v_owner = CAST(p_owner AS BINARY);
SET v_why = CASE
  WHEN p_key IS NULL OR LENGTH(v_key) = 0 THEN 'dblock: the key must not be empty'
  WHEN {is_misread} THEN {misread}
  WHEN HEX(v_key) REGEXP '^(..)*ED[AB]' THEN 'dblock: a key must be valid UTF-8, which has no surrogates; encode it as utf8mb4'
  WHEN LENGTH(v_key) > 255 THEN 'dblock: a key has at most 255 bytes'
  WHEN HEX(v_key) REGEXP '^(..)*(0.|1.|7F|C2[89].)' THEN 'dblock: a key must not contain control characters'
  WHEN p_owner IS NULL OR LENGTH(v_owner) = 0 THEN 'dblock: the owner id must not be empty; make a new one for each acquisition'
  WHEN LENGTH(v_owner) > 255 THEN 'dblock: an owner id has at most 255 bytes'
  WHEN HEX(v_owner) REGEXP '^(..)*(0.|1.|7F|C2[89].)' THEN 'dblock: an owner id must not contain control characters'
  END;
IF v_why IS NOT NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_why; END IF

-- {save_isolation} The isolation level and the access mode of the session's transactions, by their names on MySQL and on
-- MariaDB from 11.1 on, which calls the old names deprecated in a warning at each use. The next two change them and give
-- them back. READ COMMITTED takes no gap locks, but InnoDB refuses to write under it with statement-based logging.
SET v_isolation = @@SESSION.transaction_isolation, v_read_only = @@SESSION.transaction_read_only;

-- {take_isolation}
SET SESSION transaction_read_only = 0, transaction_isolation = IF(@@log_bin AND @@binlog_format = 'STATEMENT', v_isolation, 'READ-COMMITTED');

-- {restore_isolation}
SET SESSION transaction_read_only = v_read_only, transaction_isolation = v_isolation;

-- {refuse_read_only} The server would say what it was told before a switchover. The definer's rights may let a procedure write there.
IF {takes_no_writes} THEN
  SIGNAL SQLSTATE '25006' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'dblock: this server is read-only; locks are granted on the server that takes the writes';
END IF;

-- {refuse_outside_group} Refuses a server for which a replication group is configured and which is not an ONLINE member of it:
-- nobody replicates what is written there. A server without the plugin does not
-- know the variable (1193), and one without GTIDs cannot be a member.
/*!80016 IF @@gtid_mode <> 'OFF' THEN
  BEGIN
    DECLARE EXIT HANDLER FOR 1193 BEGIN END;
    DECLARE EXIT HANDLER FOR 1123 SIGNAL SQLSTATE '25006' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'dblock: this server is not an ONLINE member of its replication group; connect to one that is';
    PREPARE dblock_ask FROM 'SET @dblock_group = (@@group_replication_group_name <> '''')';
    EXECUTE dblock_ask;
    IF @dblock_group THEN
      PREPARE dblock_ask FROM 'DO {membership}';
      EXECUTE dblock_ask;
    END IF;
    DEALLOCATE PREPARE dblock_ask;
  END;
END IF; */

-- {enter} Refuses what would make the outcome depend on the caller's later COMMIT: inside a transaction SET TRANSACTION fails
-- on every server. Where it succeeds, it is meant for the next transaction, so no refusal may follow it. Then sets what the
-- session could have been set to otherwise; {leave} gives it back, but for the clock.
--
-- Since MariaDB 11.6 innodb_snapshot_isolation is on. A statement that reads another table before it waits for a row would
-- then fail (1020) if a renewal or a waiter has written to that row meanwhile: a release, for example.
--
-- Also refuses a session in which an earlier call was cut short by KILL QUERY or a time limit. A server of MariaDB 11.8 was
-- seen to run one statement of a procedure without effect in such a session from then on, that which frees the rows of
-- slots that have ended. The error is that of a lost connection, after which drivers and clients connect again.
-- @dblock_in_call stays set where {leave} was not reached.
IF @dblock_in_call THEN
  SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1927, MESSAGE_TEXT = 'dblock: an earlier call in this session was cut short; open a new connection and repeat the call';
END IF;
IF NOT @@SESSION.autocommit THEN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: autocommit is off, so this call would be undone with your transaction; SET autocommit = 1, or use another connection';
END IF;
{refuse_read_only}
{refuse_outside_group}
BEGIN
  DECLARE EXIT HANDLER FOR 1568 SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'dblock: a transaction is open, and this call would be undone with it; end the transaction first, or use another connection';
  SET TRANSACTION READ WRITE;
END;
SET v_completion = @@SESSION.completion_type, v_row_wait = @@SESSION.innodb_lock_wait_timeout, v_table_wait = @@SESSION.lock_wait_timeout;
SET SESSION completion_type = 0, innodb_lock_wait_timeout = 2, lock_wait_timeout = 2, timestamp = DEFAULT;
/*M! SET v_new_names = FALSE; */ /*M!110101 SET v_new_names = TRUE; */
/*M! IF NOT v_new_names THEN
  SET v_isolation = @@SESSION.tx_isolation, v_read_only = @@SESSION.tx_read_only;
  SET SESSION tx_read_only = 0, tx_isolation = IF(@@log_bin AND @@binlog_format = 'STATEMENT', v_isolation, 'READ-COMMITTED');
END IF; */
/*M!110101 {save_isolation} {take_isolation} */ /*!50701 {save_isolation} {take_isolation} */
/*M!110602 SET v_isolated = @@SESSION.innodb_snapshot_isolation; SET SESSION innodb_snapshot_isolation = 0; */
SET @dblock_in_call = TRUE;

-- {give_back} What {enter} has changed.
SET SESSION completion_type = v_completion, innodb_lock_wait_timeout = v_row_wait, lock_wait_timeout = v_table_wait;
/*M! IF NOT v_new_names THEN SET SESSION tx_read_only = v_read_only, tx_isolation = v_isolation; END IF; */
/*M!110101 {restore_isolation} */ /*!50701 {restore_isolation} */
/*M!110602 SET SESSION innodb_snapshot_isolation = v_isolated; */

-- {leave} The end of a call that was not cut short.
{give_back}
SET @dblock_in_call = NULL;

-- {on_error} There is nothing to undo: each statement is a transaction of its own. A lock wait that timed out, a
-- deadlock and a lost certification mean that nothing was done: an answer, so that every client's loop meets it. Any
-- other error is the caller's. MySQL's 1180: a deadlock at the commit. 1317, 1969: the call was cut short.
--
-- MySQL's 3101 is a lost certification where the server is still a member of its group. One that leaves the group ends
-- so what it has sent to the others too, and they may have committed it.
DECLARE EXIT HANDLER FOR 1020, 1205, 1213 /*!50701 , 1180 */
  SET v_outcome = 'busy', v_token = NULL, v_remaining_ms = NULL, v_holder = NULL;
DECLARE EXIT HANDLER FOR 3101
  BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
      BEGIN
        {leave}
        SIGNAL SQLSTATE '40000' SET MYSQL_ERRNO = 3101, MESSAGE_TEXT = 'dblock: whether the call was done is not known, since this server has left its replication group; repeat the call on another member';
      END;
    {refuse_outside_group}
    SET v_outcome = 'busy', v_token = NULL, v_remaining_ms = NULL, v_holder = NULL;
  END;
DECLARE EXIT HANDLER FOR 1317, 1969
  BEGIN {give_back} RESIGNAL; END;
DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN {leave} RESIGNAL; END

-- {in_doubt} Before a statement whose row count decides. A time limit that passes during a statement can end it on MariaDB
-- 11.8 without an error, and the procedure goes on: then the count must not be that of the statement before. Likewise, what
-- a SELECT decides by is unset before it.
DO 0

-- {catch_up} On a node of Galera, waits until the node has applied what the others have committed. For a statement that
-- found no lease: it may only be missing on this node, which lags behind. A server that was built without Galera does
-- not know the variables.
SET v_caught_up = TRUE;
/*M! BEGIN
  DECLARE EXIT HANDLER FOR 1193 BEGIN END;
  EXECUTE IMMEDIATE 'SET @dblock_group = @@wsrep_on';
  IF @dblock_group THEN
    EXECUTE IMMEDIATE 'SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*) INTO @dblock_seen FROM dblock_lock USE INDEX (PRIMARY) LIMIT 0';
  END IF;
END; */

-- {holder} A row's holder, for people, as dblock shows it.
CONCAT(IF(holder_user = '', '', CONCAT(holder_user, '@')), holder_host, IF(holder_pid = 0, '', CONCAT(':', holder_pid)))

-- {look} Reads the lock's own row: who has the lock now, and the token if that is the caller. Nobody is told another's
-- token, with which dblock_assert_held() would let him keep the lock from the next holder.
SELECT MAX(IF(lock_value = v_owner, token, NULL)), MAX(IF(lock_value IS NULL, NULL, {holder})),
    MAX(IF(lock_value IS NULL, NULL, GREATEST(0, TIMESTAMPDIFF(MICROSECOND, {now}, expire_time) DIV 1000)))
  INTO v_latest, v_holder, v_remaining_ms
  FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot = 0

-- {look_at_pause} Where nobody has the lock: the pause that keeps it from being granted, in the place of a holder.
BEGIN
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT LEFT(CONCAT('paused until ', DATE_FORMAT(pause.end_time, '%Y-%m-%dT%H:%i:%sZ'), ' by ', pause.paused_by,
        IF(pause.note = '', '', CONCAT(': ', pause.note))), 1000),
      TIMESTAMPDIFF(MICROSECOND, {now}, pause.end_time) DIV 1000
    INTO v_holder, v_remaining_ms
    FROM dblock_lock AS lease USE INDEX (PRIMARY) JOIN dblock_pause AS pause USE INDEX (PRIMARY) ON {covers}
    WHERE lease.lock_key = v_key AND lease.slot = 0 ORDER BY pause.end_time DESC LIMIT 1;
END

-- {answer} The row that every procedure returns. What others have written into names and notes is for people: as in the view
-- dblock_now, control characters, and those that change the direction of text or show nothing, become question marks.
SELECT v_outcome AS outcome, v_token AS token, v_remaining_ms AS remaining_ms,
  REGEXP_REPLACE(v_holder, CONVERT(x'5b002d1f7f2dc29fc2add89ce2808b2de2808fe280a82de280aee281a02de281afefbbbff3a080802df3a081bf5d' USING utf8mb4), '?') AS holder

-- {find_place} In dblock_acquire: since when the caller has a place in the line, until when it counts, and whether that is when
-- the patience of this call ends: to a second, or to a quarter of a short patience.
SELECT MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', arrival)), MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', seen_until)),
    MAX(ABS(TIMESTAMPDIFF(MICROSECOND, {now} + INTERVAL p_patience_ms * 1000 MICROSECOND, seen_until))
      <= LEAST(1000000, p_patience_ms * 250))
  INTO v_arrival, v_place_ends, v_lasts FROM dblock_waiter USE INDEX (PRIMARY) WHERE lock_key = v_key AND owner_id = v_owner

-- {wait_in_line} In dblock_acquire: the refused caller has a place in the line for p_patience_ms from now, the same as before if
-- it has one. It wants the lock exclusively, whatever mode the lock was last granted in. Clients repeat the call several times a
-- second, most of them with what is left of their patience, which ends at the same moment each time. So a place that lasts is
-- not written again, nor is its end into the lock's row, where others renew and release. That end is a second later, for the
-- rounding. A grant that did not know of the place may have written another end over it.
BEGIN
  DECLARE CONTINUE HANDLER FOR 1062 BEGIN END;
  SET v_mode = 'exclusive', v_length = p_patience_ms * 1000;
  IF NOT COALESCE(v_lasts, FALSE) THEN
    {in_doubt};
    {verb keep_places};
    IF ROW_COUNT() = 0 THEN
      {verb add_place};
    END IF;
    SET v_place_ends = NULL;
  END IF;
  SET v_length = v_length + 1000000;
  IF NOT EXISTS (SELECT 1 FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot = 0
      AND line_until >= TIMESTAMP'1970-01-01 00:00:00' + INTERVAL v_place_ends MICROSECOND) THEN
    {verb mark_line};
  END IF;
END;

-- {keeps_the_lock} A reader's or slot's row that keeps others out: its lease is within its margin, or it cools down.
slot > 0 AND NOT ((lock_value IS NULL OR {past_margin}) AND {not_cooling_down})

-- {abandon_leases} Frees the rows of readers and slots whose leases are past their margins, as a reap does, one by one.
BEGIN
  DECLARE v_kind, v_mode VARCHAR(16) DEFAULT NULL;
  DECLARE v_owner VARBINARY(255) DEFAULT NULL;
  DECLARE v_host, v_user, v_note VARCHAR(1000) CHARACTER SET utf8mb4 DEFAULT NULL;
  DECLARE v_command VARCHAR(2000) CHARACTER SET utf8mb4 DEFAULT NULL;
  DECLARE v_token BIGINT UNSIGNED DEFAULT NULL;
  DECLARE v_slot, v_pid, v_exit_code, v_attempts INT DEFAULT NULL;
  DECLARE v_outcome VARCHAR(16) DEFAULT 'abandoned';
  DECLARE v_was_released, v_all_seen BOOLEAN DEFAULT FALSE;
  DECLARE v_passed INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_all_seen = TRUE;
  WHILE NOT v_all_seen DO
    SELECT slot, lock_value, token, kind, mode, holder_host, holder_pid, holder_user, holder_command, holder_note
      INTO v_slot, v_owner, v_token, v_kind, v_mode, v_host, v_pid, v_user, v_command, v_note FROM dblock_lock USE INDEX (PRIMARY)
      WHERE lock_key = v_key AND slot > v_passed AND lock_value IS NOT NULL AND {past_margin} ORDER BY slot LIMIT 1;
    IF NOT v_all_seen THEN
      {in_doubt};
      {verb abandon};
      IF ROW_COUNT() = 1 AND LAST_INSERT_ID() > 0 THEN
        BEGIN
          DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
          {verb record_run};
        END;
      END IF;
      SET v_passed = v_slot;
    END IF;
  END WHILE;
END;

-- {become_exclusive} For a lock whose last holders were readers or holders of slots, in dblock_acquire. Where all of them
-- are gone: the transactions that they protect have ended, their leases are abandoned, what their rows know of past
-- runs goes into the lock's own row, and the lock is exclusive and free; then the next round grants it. Else: held.
--
-- Each statement is a transaction of its own, so a call that is cut short leaves no row locked. The last statement
-- decides: each grant to a reader or in a slot changes the version of the lock's own row in the same transaction. So
-- where that still has the version that was read first, nobody was granted the lock since, and all that was read
-- before is true. A statement in between does nothing to a lease that runs, or to a fence of a later grant.
--
-- No statement is believed to have had its effect ({in_doubt}).
SET v_version = NULL, v_kept = NULL;
SELECT version, token INTO v_version, v_latest FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot = 0;
SELECT COUNT(*) INTO v_kept FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key AND {keeps_the_lock};
IF COALESCE(v_kept, 1) > 0 THEN
  SELECT {holder}, GREATEST(0, TIMESTAMPDIFF(MICROSECOND, {now}, COALESCE(expire_time, hold_until)) DIV 1000)
    INTO v_holder, v_remaining_ms FROM dblock_lock USE INDEX (PRIMARY)
    WHERE lock_key = v_key AND {keeps_the_lock}
    ORDER BY COALESCE(expire_time + INTERVAL margin_us MICROSECOND, hold_until) DESC LIMIT 1;
  SET v_outcome = 'held';
ELSE
  UPDATE dblock_fence USE INDEX (PRIMARY) SET token = 0 WHERE lock_key = v_key AND slot > 0 AND token <= v_latest;
  -- Since when the lock is free, which those who stand in line have three seconds from.
  SELECT MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', LEAST({now}, GREATEST(update_time,
      COALESCE(expire_time + INTERVAL margin_us MICROSECOND, update_time), COALESCE(hold_until, update_time)))))
    INTO v_freed FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key;
  {abandon_leases}
  BEGIN
    DECLARE v_last_acquired, v_last_released, v_success_acquired, v_success_released BIGINT DEFAULT NULL;
    DECLARE v_last_outcome VARCHAR(16) DEFAULT NULL;
    DECLARE v_last_exit_code INT DEFAULT NULL;
    DECLARE v_failures INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', last_released_at),
        last_outcome, last_exit_code, failures
      INTO v_last_acquired, v_last_released, v_last_outcome, v_last_exit_code, v_failures FROM dblock_lock USE INDEX (PRIMARY)
      WHERE lock_key = v_key AND last_outcome IS NOT NULL
      ORDER BY COALESCE(last_released_at, last_acquired_at) DESC, last_acquired_at DESC LIMIT 1;
    SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', success_acquired_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', success_released_at)
      INTO v_success_acquired, v_success_released FROM dblock_lock USE INDEX (PRIMARY)
      WHERE lock_key = v_key AND success_released_at IS NOT NULL
      ORDER BY IF(success_acquired_at > {now}, TIMESTAMPDIFF(MICROSECOND, {now}, success_acquired_at),
        TIMESTAMPDIFF(MICROSECOND, success_acquired_at, {now}) DIV 9), slot LIMIT 1;
    SET v_kept = NULL;
    SELECT (SELECT COUNT(*) FROM dblock_fence USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot > 0 AND token BETWEEN 1 AND v_latest)
        + (SELECT COUNT(*) FROM dblock_lock USE INDEX (PRIMARY) WHERE lock_key = v_key AND slot > 0 AND lock_value IS NOT NULL)
      INTO v_kept;
    UPDATE dblock_lock USE INDEX (PRIMARY)
      SET version = version + 1, mode = 'exclusive', slots = 1,
        update_time = GREATEST(update_time, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL COALESCE(v_freed, 0) MICROSECOND),
        {past_runs}
      WHERE lock_key = v_key AND slot = 0 AND version = v_version AND v_kept = 0;
  END;
END IF;

-- {granted_again} In dblock_assert_held: why a token is refused that is not the lock's.
'it was granted again since, never so, or after this transaction began to read'

-- {not_held} The refusal of dblock_assert_held.
SET v_why = CONCAT('dblock: the lock is not held under this token: ', v_why);
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = v_why

-- {undone_to_savepoints} How often this session has rolled a storage engine back to a savepoint.
/*M! SELECT MAX(CAST(variable_value AS UNSIGNED)) INTO v_undone
  FROM information_schema.session_status WHERE variable_name = 'HANDLER_SAVEPOINT_ROLLBACK'; */
/*!50701 SELECT MAX(CAST(variable_value AS UNSIGNED)) INTO v_undone
  FROM performance_schema.session_status WHERE variable_name = 'Handler_savepoint_rollback'; */
