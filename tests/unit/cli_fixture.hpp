// What the cases of cli/ have in common: a command line read in an environment made of values, and locks to
// report.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "app/use_cases.hpp"
#include "cli/command_line.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock::cli {

using namespace std::chrono_literals;

using Words = std::vector<std::string>;

// What no terminal and no format may see as it is.
inline const std::string k_hostile = "\x1b[31m\r\n\xe2\x80\xae\xc2\x9b\xff";

inline lease::LockStatus free_lock(const std::string& key) {
  lease::LockStatus status;
  status.key = key;
  status.server_time.since_epoch = 1h;
  return status;
}

inline lease::LockStatus held_lock(const std::string& key, Micros held_for = 90s, Micros left = 30s) {
  auto status = free_lock(key);
  status.state = left > 0s ? lease::State::held : lease::State::expired;
  status.owner = "o";
  status.token.value = 17;
  status.holder = {"host", 42, "user", "etl", "note"};
  status.acquired_at = lease::ServerTime{1h - held_for};
  status.renewed_at = lease::ServerTime{1h - 1500ms};
  status.expires_at = lease::ServerTime{1h + left};
  status.ttl = 2min;
  return status;
}

// What inspect has to report of these locks, an hour after the epoch.
inline app::InspectReport report_of(std::vector<lease::LockStatus> locks) {
  app::InspectReport report;
  report.listing.server_time.since_epoch = std::chrono::hours(1);
  report.listing.locks = std::move(locks);
  return report;
}

// Environment and configuration files of one test; files are gone with it.
class World {
 public:
  World& set_root() {
    root_ = true;
    return *this;
  }
  World& set(const std::string& name, const std::string& value) {
    variables_[name] = value;
    return *this;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return directory_.file(name); }
  World& write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
    return *this;
  }
  // The system's file is system.conf; the user's is .config/dblock.conf once HOME is set.
  World& set_home() { return set("HOME", directory_.path()); }

  [[nodiscard]] CommandLine read(const Words& words) const {
    Environment environment;
    environment.system_config = path("system.conf");
    environment.root = root_;
    for (const auto& variable : variables_) {
      if (variable.first.starts_with("DBLOCK_")) environment.own_names.push_back(variable.first);
    }
    environment.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = variables_.find(name);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    };
    return read_command_line(parse_words(words), environment);
  }

  template <typename T>
  [[nodiscard]] T request(const Words& words) const {
    auto line = read(words);
    INFO((line.error ? line.error->message : ""));
    REQUIRE_FALSE(line.error.has_value());
    REQUIRE(std::holds_alternative<T>(line.request));
    return std::get<T>(std::move(line.request));
  }

  [[nodiscard]] Error refusal(const Words& words) const {
    const auto line = read(words);
    REQUIRE(line.error.has_value());
    return *line.error;
  }

 private:
  TempDirectory directory_;
  bool root_ = false;
  std::map<std::string, std::string> variables_;
};

}  // namespace dblock::cli
