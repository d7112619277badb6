// MariaDB's option files: [dblock] alone says where the database is, its last password wins, and no message
// holds a password.
#include <filesystem>
#include <fstream>

#include "fuzz/fuzz.hpp"
#include "fuzz/secret.hpp"
#include "fuzz/workplace.hpp"
#include "store/config/settings.hpp"

namespace dblock::fuzz {
namespace {

// Stands for the directory of the input's files, which are HERE/my.cnf and HERE/other.cnf.
constexpr std::string_view k_here = "HERE";

// Files outside are not the input's business, and one without an end would be read for seconds.
bool reaches_outside(std::string_view text) {
  for (auto at = text.find('!'); at != std::string_view::npos; at = text.find('!', at + 1)) {
    auto line = text.substr(at, text.find('\n', at) - at);
    if (const auto here = line.find(k_here); here != std::string_view::npos)
      line.remove_prefix(here + k_here.size() + (line.substr(here).starts_with("HERE/") ? 1 : 0));
    if (line.find('/') != std::string_view::npos || line.find("..") != std::string_view::npos) return true;
  }
  return false;
}

void write_file(const std::string& name, std::string text) {
  for (auto at = text.find(k_here); at != std::string::npos; at = text.find(k_here, at + workplace().size()))
    text.replace(at, k_here.size(), workplace());
  write_here(name, text);
}

Result<store::PartialSettings> read_written(const std::string& text) {
  write_file("my.cnf", text);
  return store::read_option_file(workplace() + "/my.cnf");
}

// The main file, then a line of one 0x1e, then the file other.cnf that it may include.
std::string_view run_option_file(Input input) {
  const std::string main = input.until('\x1e');
  const std::string other = input.rest();
  if (reaches_outside(main) || reaches_outside(other)) return "outside";
  write_file("other.cnf", other);
  const auto settings = read_written(main);
  if (settings && (main + other).find("dblock") == std::string::npos) {
    const bool placed = !settings->hosts.empty() || settings->socket || settings->database;
    demand(!placed, "only [dblock] says where the database is", main);
  }
  if (settings)
    for (const auto& host : settings->hosts)
      demand(host.host.find_first_of("=;@/ ") == std::string::npos && !host.host.empty(), "a host is one",
             main);
  // The same with a password last, and with one in each place where the input wants it (\x01).
  const std::string last = main + "\n[dblock]\npassword=" + std::string(k_secret) + "\n";
  const auto with_password = read_written(last);
  demand(with_password.has_value() == settings.has_value(), "a password alone is no fault", main);
  if (with_password) demand(with_password->password == k_secret, "[dblock]'s last password wins", main);
  std::string planted = main;
  for (auto at = planted.find("password="); at != std::string::npos; at = planted.find("password=", at + 9))
    planted.insert(at + 9, k_secret);
  const auto faulty = read_written(planted);
  if (!faulty) demand_no_secret(faulty.error().message, planted);
  return settings ? "accepted" : "refused";
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(option_file, dblock::fuzz::run_option_file)
