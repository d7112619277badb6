#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "doctor/judgements.hpp"

namespace dblock::doctor {
namespace {

using store::FileContents;

constexpr std::uint64_t k_mebibyte = 1U << 20U;
constexpr std::uint64_t k_scarce = 64 * k_mebibyte;
constexpr std::uint64_t k_too_little = k_mebibyte;  // less than a write-ahead log of ordinary length
constexpr Micros k_impossible_past = std::chrono::hours(24) * 365 * 50;

Finding bad(const std::string& check, const Error& error) {
  return {check, Level::bad, "", error.message, {}};
}

Finding space(const FileFacts& facts) {
  if (!facts.free_bytes)
    return {"disk-space", Level::warn, "not known", facts.free_bytes.error().message, {}};
  return judge_space(*facts.free_bytes);
}

// The wall clock decides no lease. Its times are shown, and tell one boot from another.
Finding clock(const FileFacts& facts) {
  if (!facts.boot_clock) return bad("clock", facts.boot_clock.error());
  if (facts.wall_clock < k_impossible_past)
    return {"clock", Level::warn, "before 2020", "times that inspect shows will be wrong; set the clock", {}};
  return {"clock", Level::ok, "", "leases go by the time since boot, which no step of the clock moves", {}};
}

Finding schema(const FileContents& contents) {
  if (!contents.schema_version) return bad("schema", contents.schema_version.error());
  const std::string version = "version " + std::to_string(*contents.schema_version);
  if (*contents.schema_version == contents.schema_needed)
    return {"schema", Level::ok, version, "the one this dblock needs", {}};
  return {"schema",
          Level::ok,
          version,
          "the next job brings it to version " + std::to_string(contents.schema_needed),
          {}};
}

Finding history(bool kept) {
  if (kept) return {"history", Level::ok, "kept", "`dblock history` shows it", {}};
  return {"history", Level::ok, "not kept", "`dblock migrate --history on` begins one", {}};
}

Finding journal(const FileContents& contents) {
  if (contents.journal_mode == "wal")
    return {"journal", Level::ok, contents.journal_mode, "a killed job loses nothing", {}};
  return {
      "journal", Level::warn, contents.journal_mode, "dblock makes its stores with a write-ahead log", {}};
}

Finding integrity(const FileContents& contents) {
  if (contents.integrity == "ok") return {"integrity", Level::ok, "", "the file is whole", {}};
  return {"integrity",
          Level::bad,
          contents.integrity,
          "the file is damaged; let no job run, move it away, and dblock makes a new one",
          {}};
}

std::vector<Finding> judge_contents(const Result<FileContents>& contents) {
  if (!contents) return {bad("store", contents.error())};
  std::vector<Finding> findings{schema(*contents)};
  if (contents->keeps_history) findings.push_back(history(*contents->keeps_history));
  findings.push_back(journal(*contents));
  findings.push_back(integrity(*contents));
  for (auto& pause : judge_pauses(contents->pauses)) findings.push_back(std::move(pause));
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

std::vector<Finding> judge_file(const FileFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.path) {
    findings.push_back(bad("store", facts.path.error()));
    if (facts.exists) findings.push_back(space(facts));
    return findings;
  }
  if (facts.contents) {
    findings.push_back(
        {"store", Level::ok, *facts.path, "guards the jobs of this user on this host only", {}});
    findings.push_back(judge_mode(facts.mode));
    for (auto& more : judge_contents(*facts.contents)) findings.push_back(std::move(more));
  } else {
    findings.push_back({"store", Level::ok, *facts.path, "not there yet; the first lock makes it", {}});
  }
  findings.push_back(space(facts));
  findings.push_back(clock(facts));
  return findings;
}

}  // namespace dblock::doctor
