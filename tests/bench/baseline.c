// bench_baseline SOCKET DATABASE KEY COMMAND [ARG...]
//
// The least a program can do for a lock in this table, and what `dblock run` is measured against: connect,
// take the lock by one UPDATE, run the command, release it by one UPDATE. No heartbeat, no guardian, no
// options. The row must exist (`dblock run --key KEY -- true` makes it) and be free.
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// Which rows may be taken, and the next token, as in dblock's statements.
#define FREE                                                                    \
  "mode='exclusive' AND (lock_value IS NULL OR expire_time+INTERVAL margin_us " \
  "MICROSECOND<=UTC_TIMESTAMP(6)) "                                             \
  "AND (hold_until IS NULL OR hold_until<=UTC_TIMESTAMP(6))"
#define TOKEN               \
  "GREATEST(lease.token+1," \
  "CAST(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) AS UNSIGNED))"

static MYSQL* connection;

static void fail(const char* what) {
  fprintf(stderr, "bench_baseline: %s: %s\n", what, connection ? mysql_error(connection) : "");
  exit(1);
}

static void update_rows(unsigned rows, const char* what, const char* sql, int length) {
  if (mysql_real_query(connection, sql, (unsigned long)length) != 0) fail(what);
  if (mysql_affected_rows(connection) != rows) fail(what);
}

int main(int argc, char** argv) {
  if (argc < 5) fail("usage: bench_baseline SOCKET DATABASE KEY COMMAND [ARG...]");
  const char* key = argv[3];
  char owner[64];
  char sql[4096];
  snprintf(owner, sizeof owner, "baseline-%ld", (long)getpid());

  connection = mysql_init(NULL);
  if (!connection || !mysql_real_connect(connection, "localhost", "root", NULL, argv[2], 0, argv[1], 0)) {
    fail("connect");
  }

  // Both statements change the same rows and columns as dblock's. They are shorter: they leave out the
  // conditions of options that are not used, and dblock's first statement, which sets the session up.
  update_rows(
      2, "acquire", sql,  // the lease and its fence
      snprintf(
          sql, sizeof sql,
          "UPDATE dblock_lock AS lease JOIN dblock_fence AS fence ON fence.slot=0 AND fence.lock_key=IF(" FREE
          ",lease.lock_key,NULL) "
          "SET last_acquired_at=IF(lock_value IS NULL,last_acquired_at,create_time),"
          "last_released_at=IF(lock_value IS NULL,last_released_at,NULL),"
          "last_outcome=IF(lock_value IS NULL,last_outcome,'abandoned'),"
          "last_exit_code=IF(lock_value IS NULL,last_exit_code,NULL),"
          "lease.token=LAST_INSERT_ID(" TOKEN "),"
          "version=version+1,lock_value='%s',create_time=UTC_TIMESTAMP(6),update_time=UTC_TIMESTAMP(6),"
          "expire_time=UTC_TIMESTAMP(6)+INTERVAL 120000000 MICROSECOND,lock_count=1,kind='run',"
          "ttl_us=120000000,margin_us=3000000,heartbeat_us=15000000,hold_until=NULL,revoke_time=NULL,"
          "holder_host='host',holder_pid=%ld,holder_user='root',holder_command='true',"
          "holder_note='',arrived_at=UTC_TIMESTAMP(6),"
          "fence.token=IF(lock_value='%s' AND create_time=UTC_TIMESTAMP(6),lease.token," TOKEN ") "
          "WHERE lease.lock_key='%s' AND lease.slot=0 AND " FREE,
          owner, (long)getpid(), owner, key));
  const unsigned long long token = mysql_insert_id(connection);

  const pid_t child = fork();
  if (child == 0) {
    execvp(argv[4], argv + 4);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) fail("fork");

  update_rows(
      1, "release", sql,
      snprintf(sql, sizeof sql,
               "UPDATE dblock_lock SET last_acquired_at=create_time,last_released_at=UTC_TIMESTAMP(6),"
               "last_outcome='succeeded',last_exit_code=%d,version=version+1,update_time=UTC_TIMESTAMP(6),"
               "lock_value=NULL,expire_time=NULL,revoke_time=NULL,lock_count=0,"
               "success_acquired_at=create_time,success_released_at=UTC_TIMESTAMP(6) "
               "WHERE lock_key='%s' AND slot=0 AND lock_value='%s' AND token=%llu",
               WEXITSTATUS(status), key, owner, token));
  mysql_close(connection);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
