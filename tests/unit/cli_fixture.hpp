// A command line read in surroundings made of values.
#pragma once

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace dblock::cli {

using Words = std::vector<std::string>;

// Environment and configuration files of one test; files are gone with it.
class World {
 public:
  World() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dblock-cli-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    directory_ = pattern;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() { std::filesystem::remove_all(directory_); }

  World& set_root() {
    root_ = true;
    return *this;
  }
  World& set(const std::string& name, const std::string& value) {
    variables_[name] = value;
    return *this;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  World& write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
    return *this;
  }
  // The system's file is system.conf; the user's is .config/dblock.conf once HOME is set.
  World& set_home() { return set("HOME", directory_); }

  [[nodiscard]] CommandLine read(const Words& words) const {
    Surroundings surroundings;
    surroundings.system_config = path("system.conf");
    surroundings.root = root_;
    surroundings.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto it = variables_.find(name);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    };
    return read_command_line(words, surroundings);
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
  std::string directory_;
  bool root_ = false;
  std::map<std::string, std::string> variables_;
};

}  // namespace dblock::cli
