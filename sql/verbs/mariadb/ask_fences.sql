-- Tells of each row of a lock that nobody holds whether a transaction, through dblock_assert_held(), keeps the row's fence
-- locked: 1, else 0. Fails at once if another session has locked one of the rows.
--
-- Such a transaction shares the fence, so only a request for the whole fence meets it. What is free is locked until this
-- statement ends, which is at once: it waits for nothing, and no commit follows. It locks in the order of lock_rows.sql,
-- each lock's own row first, so no grant is refused because of it: a grant that comes meanwhile waits at this row, before it
-- skips or writes a fence. Two of these statements never see each other's fences, for the same reason. The fence of a
-- lease that runs is left alone, so that no holder's transaction meets this statement.
SELECT CASE WHEN expire_time > {now} THEN 0 ELSE ({own_fence}) <> ({own_fence} FOR UPDATE SKIP LOCKED) END
FROM dblock_lock AS lease FORCE INDEX (PRIMARY) WHERE lock_key = :key ORDER BY slot FOR UPDATE NOWAIT
