#include "store/sqlite/errors.hpp"

#include <sqlite3.h>

#include <cerrno>

namespace dblock::store::sqlite {
namespace {

struct Verdict {
  Errc code;
  std::string message;
};

Verdict disk_full() {
  return {Errc::unreachable, "no space is left on its disk; nothing was changed. Make room and try again"};
}

Verdict not_a_store(const std::string& message) {
  return {Errc::config,
          message +
              "; it is left as it is. If no job runs under its locks, move it and its -wal and -shm files "
              "away, and dblock makes a new store"};
}

// Judges an I/O error by the system's error number: SQLite's code alone is too general.
Verdict of_io(int system, Phase phase, const std::string& message) {
  if (system == ENOSPC || system == EDQUOT) return disk_full();
  if (system == EFBIG) {
    return {Errc::unreachable,
            "its files may not grow that large for this process (ulimit -f); nothing was changed. Raise the "
            "limit"};
  }
  return {phase == Phase::write ? Errc::indeterminate : Errc::unreachable,
          message + "; is the disk in order, and were its -wal and -shm files left alone?"};
}

Verdict of_open(int system, const std::string& message) {
  if (system == ENOSPC || system == EDQUOT) return disk_full();
  if (system == EMFILE || system == ENFILE) return {Errc::unreachable, with_errno(message, system)};
  if (system == 0) return {Errc::config, message};
  return {Errc::config, with_errno("it or one of its files (-wal, -shm) cannot be opened", system)};
}

Verdict classify(int code, int system, const std::string& message, Phase phase) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return {Errc::unreachable,
              "other processes kept the store to themselves the whole time; is one of them stopped?"};
    case SQLITE_FULL:
      return disk_full();
    case SQLITE_CORRUPT:
      return not_a_store("the file is damaged (" + message + ")");
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
      return not_a_store("its tables are not as dblock makes them (" + message + ")");
    case SQLITE_NOTADB:
      return not_a_store("the file is not a dblock store, or it is damaged (" + message + ")");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {Errc::config, "the file or its directory is not writable (" + message +
                                "); the user who runs dblock must be able to write both"};
    case SQLITE_CANTOPEN:
      return of_open(system, message);
    case SQLITE_IOERR:
      return of_io(system, phase, message);
    case SQLITE_INTERRUPT:
      return {Errc::unreachable, "the call was broken off"};
    default:
      return {Errc::internal, message};
  }
}

}  // namespace

bool is_busy(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_PROTOCOL;
}

Error make_error(std::string_view attempt, std::string_view where, sqlite3* handle, int code, Phase phase) {
  const bool has_message = handle != nullptr && (sqlite3_errcode(handle) & 0xff) == (code & 0xff);
  const std::string message = has_message ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  const int system = handle != nullptr ? sqlite3_system_errno(handle) : 0;
  const auto verdict = classify(code, system, message, phase);
  return {verdict.code, std::string(attempt) + " in " + std::string(where) + ": " + verdict.message,
          static_cast<unsigned>(code)};
}

}  // namespace dblock::store::sqlite
