#include "process/environment.hpp"

#include <unistd.h>

#include <cstring>
#include <map>
#include <string_view>

namespace dblock::process {
namespace {

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

}  // namespace

// No inherited entry of a changed name stays: an inner lock's values win even with programs that believe the
// last of two equal names.
std::vector<char*> changed_environment(std::string& changes) {
  std::map<std::string_view, char*> changed;  // the last change of each name counts
  for (std::size_t at = 0; at < changes.size(); at += std::strlen(&changes[at]) + 1)
    changed[name_of(&changes[at])] = &changes[at];
  std::vector<char*> merged;
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    if (!changed.contains(name_of(*inherited))) merged.push_back(*inherited);
  }
  for (const auto& [name, entry] : changed) {
    if (entry[name.size()] == '=') merged.push_back(entry);
  }
  merged.push_back(nullptr);
  return merged;
}

std::string join_changes(const std::vector<std::string>& changes) {
  std::string joined;
  for (const std::string& change : changes) joined.append(change, 0, change.find('\0')).push_back('\0');
  return joined;
}

}  // namespace dblock::process
