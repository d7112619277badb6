#include "support/nodes.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

std::string temporary_directory() {
  const char* const given = std::getenv("TMPDIR");
  return given != nullptr && std::string_view(given).size() < 60 ? given : "/tmp";
}

bool is_free(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return bound;
}

void require_done(const Finished& finished) {
  if (finished.exit != exited(0)) throw std::runtime_error(finished.out + finished.err);
}

}  // namespace

int free_ports(int count) {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int first = 10'000 + static_cast<int>(random() % 20'000);
    bool free = true;
    for (int port = first; port < first + count; ++port) free = free && is_free(port);
    if (free) return first;
  }
  throw std::runtime_error("no free ports");
}

std::string on_loopback(int port) {
  return "127.0.0.1:" + std::to_string(port);
}

Nodes::Nodes(std::optional<uid_t> user, int ports_a_node) : user_(user), directory_(temporary_directory()) {
  fs::permissions(directory_.path(), fs::perms(0711));
  int port = free_ports(k_size * ports_a_node);
  for (int node = 1; node <= k_size; ++node, port += ports_a_node) {
    Node& it = at(node);
    it.directory = directory_.file(std::to_string(node));
    it.address = {it.directory + "/sock", port};
    it.group_port = port + 1;
    fs::create_directory(it.directory);
  }
}

void Nodes::copy_data(const std::string& from, int node) {
  const std::string& to = at(node).directory;
  require_done(run_program({.argv = {"cp", "-a", "--reflink=auto", from, to + "/data"}}, k_patience));
  if (user_) require_done(run_program({.argv = {"chown", "-R", std::to_string(*user_), to}}, k_patience));
}

std::vector<std::string> Nodes::basic_words(int node) const {
  const Node& it = at(node);
  std::vector<std::string> words{server_kind().program,
                                 "--no-defaults",
                                 "--datadir=" + it.directory + "/data",
                                 "--socket=" + it.address.socket,
                                 "--port=" + std::to_string(it.address.port),
                                 "--pid-file=" + it.directory + "/pid",
                                 "--log-error=" + it.directory + "/error.log",
                                 "--tmpdir=" + it.directory};
  words.insert(words.end(), server_options().begin(), server_options().end());
  return words;
}

void Nodes::launch(int node, const std::vector<std::string>& words) {
  Node& it = at(node);
  it.process =
      std::make_unique<Process>(Spawn{.argv = words, .env = it.env, .user = user_, .ends_with_test = true});
}

std::string Nodes::url(const std::string& database, const std::vector<int>& nodes) const {
  std::string hosts;
  for (const int node : nodes) hosts += (hosts.empty() ? "" : ",") + on_loopback(address(node).port);
  return "mysql://app@" + hosts + "/" + database + "?connect-timeout=2s";
}

void Nodes::kill(int node) {
  at(node).process.reset();  // and what transfers its state
}

void Nodes::await_synced(int node, int size) {
  State now;
  const bool synced = wait_until(
      [&] {
        if (!at(node).process->running()) return true;
        try {
          now = state(node, size);
        } catch (const SqlError& error) {
          now = {.said = error.what()};
        }
        return now.synced;
      },
      k_patience);
  if (!synced || !at(node).process->running())
    throw std::runtime_error("node " + std::to_string(node) + " is not synced: " + now.said + log_of(node));
}

void Nodes::await_tables(int node, const std::string& database, const std::string& setting) {
  std::string refusal;
  const bool there = wait_until(
      [&] {
        try {
          auto root = sql(node);
          root.sql("SET SESSION " + setting);
          root.sql("SELECT COUNT(*) FROM " + database + ".dblock_schema");
          return true;
        } catch (const SqlError& error) {
          refusal = error.what();
          return false;
        }
      },
      k_patience);
  if (!there) throw std::runtime_error(refusal + log_of(node));
}

// The others first: they may have thrown it out.
void Nodes::await_rejoined(int node) {
  for (int other = 1; other <= k_size; ++other) {
    if (other != node) await_synced(other);
  }
  await_synced(node);
}

std::string Nodes::group_addresses() const {
  std::string addresses;
  for (const Node& node : nodes_) addresses += (addresses.empty() ? "" : ",") + on_loopback(node.group_port);
  return addresses;
}

std::string Nodes::log_of(int node) const {
  const std::string log = read_file(at(node).directory + "/error.log");
  return "; its log ends so:\n" + log.substr(log.size() - std::min<std::size_t>(log.size(), 6000));
}

}  // namespace dblock::test
