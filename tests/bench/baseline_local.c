// bench_baseline_local FILE COMMAND [ARG...]
//
// The least that a run under a lock of the embedded store can be: a guardian, the job behind a gate, SQLite
// with its write-ahead log, one commit that takes the lock and one that releases it. No options, signals,
// deadline, heartbeat or messages. Makes FILE at its first run.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TABLE                                                                       \
  "PRAGMA page_size=1024; PRAGMA journal_mode=WAL;"                                 \
  "CREATE TABLE IF NOT EXISTS lock (name PRIMARY KEY, owner, token) WITHOUT ROWID;" \
  "INSERT OR IGNORE INTO lock VALUES ('bench', NULL, 1)"

// As dblock does: a closing connection empties the log once it is this long.
static const int k_frames_emptied_on_close = 150;

static sqlite3* store;
static int log_frames;

static void fail(const char* what) {
  fprintf(stderr, "bench_baseline_local: %s: %s\n", what, store ? sqlite3_errmsg(store) : "");
  exit(1);
}

static void change_row(const char* sql) {
  if (sqlite3_exec(store, sql, NULL, NULL, NULL) != SQLITE_OK || sqlite3_changes(store) != 1) fail(sql);
}

static void pass(int from, int to) {
  char byte = 0;
  if (from >= 0 && read(from, &byte, 1) != 1) _exit(1);
  if (to >= 0 && write(to, &byte, 1) != 1) _exit(1);
}

static int count_frames(void* unused, sqlite3* handle, const char* name, int frames) {
  (void)unused, (void)handle, (void)name;
  log_frames = frames;
  return SQLITE_OK;
}

static void guard(int dblock, char** command) {
  int gate[2];
  if (pipe(gate) != 0) _exit(1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t job = fork();
  if (job == 0) {
    close(gate[1]);
    pass(gate[0], -1);
    close(gate[0]);
    execvp(command[0], command);
    _exit(127);
  }
  pass(dblock, gate[1]);
  int status = 1;
  waitpid(job, &status, 0);
  pass(-1, dblock);
  _exit(WEXITSTATUS(status));
}

static void open_store(const char* file, int flags) {
  if (sqlite3_open_v2(file, &store, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) fail("open");
  sqlite3_db_config(store, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  sqlite3_wal_hook(store, count_frames, NULL);
}

int main(int argc, char** argv) {
  int pair[2];
  if (argc < 3) fail("usage: bench_baseline_local FILE COMMAND [ARG...]");
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) fail("socketpair");
  const pid_t guardian = fork();
  if (guardian == 0) {
    close(pair[0]);
    guard(pair[1], argv + 2);
  }
  close(pair[1]);

  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3_config(SQLITE_CONFIG_PAGECACHE, NULL, 0, 0);
  sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  if (access(argv[1], F_OK) == 0) {
    open_store(argv[1], SQLITE_OPEN_READWRITE);
  } else {
    open_store(argv[1], SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (sqlite3_exec(store, TABLE, NULL, NULL, NULL) != SQLITE_OK) fail("create");
  }
  sqlite3_exec(store, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
  change_row("UPDATE lock SET owner='me', token=token+1 WHERE name='bench' AND owner IS NULL");
  pass(-1, pair[0]);
  pass(pair[0], -1);
  change_row("UPDATE lock SET owner=NULL WHERE name='bench' AND owner='me'");
  if (log_frames >= k_frames_emptied_on_close)
    sqlite3_wal_checkpoint_v2(store, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  int status = 1;
  waitpid(guardian, &status, 0);
  return WEXITSTATUS(status);
}
