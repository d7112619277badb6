// Collects the facts for `doctor` from the embedded store: its file, the disk and the clocks.
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <utility>

#include "store/sqlite/boot.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/file.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/sql.hpp"

namespace dblock::store::sqlite {
namespace {

constexpr const char* k_attempt = "cannot examine the store";

// The store's directory; if it does not exist yet, the nearest parent that exists.
std::string directory_of(const std::string& path) {
  std::string directory = path;
  struct stat seen {};
  do {
    const auto slash = directory.rfind('/');
    directory.resize(slash == std::string::npos ? 0 : slash);
  } while (!directory.empty() && ::stat(directory.c_str(), &seen) != 0);
  return directory.empty() ? "/" : directory;
}

Result<std::uint64_t> free_bytes(const std::string& path) {
  struct statvfs seen {};
  if (::statvfs(directory_of(path).c_str(), &seen) != 0)
    return fail(Errc::internal, with_errno("cannot look at its disk", errno));
  return std::uint64_t{seen.f_bavail} * seen.f_frsize;
}

Result<unsigned> schema_version_in(SchemaAdmin& admin) {
  DBLOCK_TRY(const auto states, admin.status());
  unsigned applied = 0;
  for (const auto& state : states) applied += state.applied_at ? 1U : 0U;
  return applied;
}

std::string first_cell(Connection& connection, const std::string& sql) {
  const auto rows = connection.run(sql, {}, Phase::read);
  return rows && !rows->empty() ? rows->front()[0].value_or("") : "";
}

Result<FileContents> read_contents(const SqliteSettings& settings) {
  SystemClock system_clock;
  Connection connection(settings, {}, system_clock, SchemaCheck::off);
  const Connection::Call call(connection, k_attempt);
  DBLOCK_CHECK(connection.ensure_open());
  const auto admin = make_schema_admin(settings, {});
  FileContents contents{schema_version_in(*admin), admin->version(), {}, {}, {}};
  if (const auto kept = keeps_history(connection)) contents.keeps_history = *kept;
  // A file of an older version has no pauses.
  if (const auto rows = connection.run(sql(Verb::list_pauses), {}, Phase::read)) {
    for (const auto& row : *rows) contents.pauses.push_back(read_pause(row));
  }
  contents.journal_mode = first_cell(connection, "PRAGMA journal_mode");
  contents.integrity = first_cell(connection, "PRAGMA quick_check(1)");
  return contents;
}

}  // namespace

FileFacts gather_facts(const SqliteSettings& settings) {
  FileFacts facts;
  facts.path = settings.path;
  struct stat seen {};
  facts.exists = ::lstat(settings.path.c_str(), &seen) == 0;
  facts.mode = seen.st_mode;
  if (facts.exists) {
    facts.path = prepare_file(settings, k_attempt);
    if (facts.path) facts.contents = read_contents(settings);
  } else if (auto placed = require_directory(settings, k_attempt); !placed) {
    facts.path = std::unexpected(std::move(placed.error()));
  }
  facts.free_bytes = free_bytes(settings.path);
  if (auto boot = read_boot(); !boot) facts.boot_clock = std::unexpected(std::move(boot.error()));
  facts.wall_clock = wall_now();
  return facts;
}

}  // namespace dblock::store::sqlite
