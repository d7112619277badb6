#include "store/sqlite/examiner.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "store/open.hpp"
#include "store/sqlite/boot.hpp"
#include "store/sqlite/connection.hpp"
#include "store/sqlite/factory.hpp"
#include "store/sqlite/file.hpp"
#include "store/sqlite/history.hpp"

namespace dblock::store::sqlite {
namespace {

using namespace std::chrono_literals;

const std::string k_attempt = "cannot examine the store";
constexpr std::uint64_t k_mebibyte = 1U << 20U;
constexpr std::uint64_t k_scarce = 64 * k_mebibyte;
constexpr std::uint64_t k_too_little = k_mebibyte;  // less than a log of ordinary length
constexpr Micros k_impossible_past = std::chrono::hours(24) * 365 * 50;

Finding bad(const std::string& check, const Error& error) {
  return {check, Level::bad, "", error.message, {}};
}

// The directory that the store is in, or will be: the nearest one that is there.
std::string directory_of(const std::string& path) {
  std::string directory = path;
  struct stat seen {};
  do {
    const auto slash = directory.rfind('/');
    directory.resize(slash == std::string::npos ? 0 : slash);
  } while (!directory.empty() && ::stat(directory.c_str(), &seen) != 0);
  return directory.empty() ? "/" : directory;
}

Finding space(const std::string& path) {
  struct statvfs seen {};
  if (::statvfs(directory_of(path).c_str(), &seen) != 0)
    return {"disk-space", Level::warn, "not known", with_errno("cannot look at its disk", errno), {}};
  return judge_space(std::uint64_t{seen.f_bavail} * seen.f_frsize);
}

// No time of the wall clock decides anything; it is shown, and tells one boot's past from another's.
Finding clock() {
  if (const auto boot = read_boot(); !boot) return bad("clock", boot.error());
  if (wall_now() < k_impossible_past)
    return {"clock", Level::warn, "before 2020", "times that inspect shows will be wrong; set the clock", {}};
  return {"clock", Level::ok, "", "leases go by the time since boot, which no step of the clock moves", {}};
}

Finding schema(const SqliteSettings& settings) {
  const auto admin = make_schema_admin(settings, {});
  const auto states = admin->status();
  if (!states) return bad("schema", states.error());
  unsigned found = 0;
  for (const auto& state : *states) found += state.applied_at ? 1U : 0U;
  const std::string version = "version " + std::to_string(found);
  if (found == states->size()) return {"schema", Level::ok, version, "the one this dblock needs", {}};
  return {"schema",
          Level::ok,
          version,
          "the next job brings it to version " + std::to_string(admin->version()),
          {}};
}

std::string first_cell(Connection& connection, const std::string& sql) {
  const auto rows = connection.run(sql, {}, k_attempt, Phase::read);
  return rows && !rows->empty() ? rows->front()[0].value_or("") : "";
}

std::vector<Finding> contents(const SqliteSettings& settings) {
  SystemClock system_clock;
  Connection connection(settings, {}, system_clock, SchemaCheck::off);
  connection.begin_call();
  if (const auto open = connection.ensure_open(k_attempt); !open) return {bad("store", open.error())};
  std::vector<Finding> findings{schema(settings)};
  const auto kept = keeps_history(connection, k_attempt);
  if (kept && *kept) findings.push_back({"history", Level::ok, "kept", "`dblock history` shows it", {}});
  if (kept && !*kept)
    findings.push_back({"history", Level::ok, "not kept", "`dblock migrate --history on` begins one", {}});
  const std::string mode = first_cell(connection, "PRAGMA journal_mode");
  if (mode == "wal") {
    findings.push_back({"journal", Level::ok, mode, "a killed job loses nothing", {}});
  } else {
    findings.push_back({"journal", Level::warn, mode, "dblock makes its stores with a write-ahead log", {}});
  }
  const std::string health = first_cell(connection, "PRAGMA quick_check(1)");
  if (health == "ok") {
    findings.push_back({"integrity", Level::ok, "", "the file is whole", {}});
  } else {
    findings.push_back({"integrity",
                        Level::bad,
                        health,
                        "the file is damaged; let no job run, move it away, and dblock makes a new one",
                        {}});
  }
  return findings;
}

}  // namespace

Finding judge_space(std::uint64_t free_bytes) {
  const std::string found = std::to_string(free_bytes / k_mebibyte) + " MiB free";
  if (free_bytes < k_too_little)
    return {"disk-space", Level::bad, found, "a full disk ends the leases of running jobs; make room", {}};
  if (free_bytes < k_scarce)
    return {"disk-space", Level::warn, found, "a full disk ends the leases of running jobs", {}};
  return {"disk-space", Level::ok, found, "", {}};
}

Finding judge_mode(unsigned mode) {
  std::array<char, 8> octal{};
  std::snprintf(octal.data(), octal.size(), "%04o", mode & 07777U);
  if ((mode & (S_IRWXG | S_IRWXO)) == 0)
    return {"store-mode", Level::ok, octal.data(), "only its owner may read or write it", {}};
  if ((mode & (S_IWGRP | S_IWOTH)) == 0)
    return {"store-mode", Level::warn, octal.data(), "others may read who holds what; chmod 600 it", {}};
  return {"store-mode", Level::warn, octal.data(), "others may take and break locks; chmod 600 it", {}};
}

std::vector<Finding> examine(const SqliteSettings& settings) {
  std::vector<Finding> findings;
  struct stat seen {};
  const bool there = ::lstat(settings.path.c_str(), &seen) == 0;
  if (there) {
    const auto prepared = prepare_file(settings, k_attempt);
    if (!prepared) return {bad("store", prepared.error()), space(settings.path)};
    findings.push_back({"store", Level::ok, *prepared, "guards this host only, for this user", {}});
    findings.push_back(judge_mode(seen.st_mode));
    const auto more = contents(settings);
    findings.insert(findings.end(), more.begin(), more.end());
  } else if (const auto placed = check_place(settings, k_attempt); !placed) {
    return {bad("store", placed.error())};
  } else {
    findings.push_back({"store", Level::ok, settings.path, "not there yet; the first lock makes it", {}});
  }
  findings.push_back(space(settings.path));
  findings.push_back(clock());
  return findings;
}

}  // namespace dblock::store::sqlite
