#include "support/cluster.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
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

constexpr int k_ports_a_node = 3;  // clients, group, incremental state transfer
constexpr milliseconds k_patience = 60s;

std::string galera_library() {
  for (const char* path : {"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so",
                           "/usr/lib/galera-4/libgalera_smm.so"}) {
    if (fs::exists(path)) return path;
  }
  return "";
}

bool installed(const std::string& program) {
  return fs::exists("/usr/bin/" + program) || fs::exists("/usr/local/bin/" + program);
}

std::optional<uid_t> ordinary_user() {
  if (::geteuid() != 0) return std::nullopt;
  const passwd* const mysql = ::getpwnam("mysql");
  return mysql != nullptr ? mysql->pw_uid : uid_t{65534};
}

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

// Below the ports that the kernel hands out: a node that is down for a while must find its own again.
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

std::string local(int port) {
  return "127.0.0.1:" + std::to_string(port);
}

void require_done(const Finished& finished) {
  if (finished.exit != exited(0)) throw std::runtime_error(finished.out + finished.err);
}

}  // namespace

std::string why_no_cluster() {
  if (galera_library().empty()) return "Galera is not installed (Debian: galera-4)";
  if (!installed("wsrep_sst_rsync") || !installed("rsync"))
    return "state transfer by rsync is not installed (Debian: mariadb-server, rsync)";
  if (slowness() != 1) return "three nodes and a sanitizer are too slow together";
  return "";
}

Cluster::Cluster(const std::vector<std::string>& env_of_last)
    : user_(ordinary_user()), directory_(temporary_directory()) {
  fs::permissions(directory_.path(), fs::perms(0711));
  const int first_port = free_ports(k_size * k_ports_a_node);
  for (int node = 1; node <= k_size; ++node) name(node, first_port + (node - 1) * k_ports_a_node);
  at(k_size).env = env_of_last;
  copy_data(server_template(), 1);
  found();
  // All start from the same state, which saves the transfer of everything to each that joins.
  for (int node = 2; node <= k_size; ++node) copy_data(at(1).directory + "/data", node);
  launch(1, {"--wsrep-new-cluster"});
  await_synced(1, 1);
  // One after the other: two that join at once wait for each other's timeouts.
  for (int node = 2; node <= k_size; ++node) join(node, {}, node);
}

void Cluster::name(int node, int port) {
  Node& it = at(node);
  it.directory = directory_.file(std::to_string(node));
  it.address = {it.directory + "/sock", port};
  it.group_port = port + 1;
  fs::create_directory(it.directory);
}

void Cluster::copy_data(const std::string& from, int node) {
  const std::string& to = at(node).directory;
  require_done(run_program({.argv = {"cp", "-a", "--reflink=auto", from, to + "/data"}}, k_patience));
  if (user_) require_done(run_program({.argv = {"chown", "-R", std::to_string(*user_), to}}, k_patience));
}

// The first node alone, with the accounts; stopped again so that its state is on disk.
void Cluster::found() {
  launch(1, {"--wsrep-new-cluster"});
  await_synced(1, 1);
  auto root = sql(1);
  root.sql("DELETE FROM mysql.global_priv WHERE User=''");
  root.sql("FLUSH PRIVILEGES");
  root.sql("CREATE USER root@'%'");
  root.sql("GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION");
  root.sql("CREATE USER app@'%'");
  root.sql("CREATE USER owner@'%'");
  root.sql("GRANT ALL ON `t\\_%`.* TO owner@'%'");
  at(1).process->signal(SIGTERM);
  if (at(1).process->wait(k_patience) != exited(0))
    throw std::runtime_error("node 1 does not stop" + log_of(1));
}

std::vector<std::string> Cluster::words(int node) const {
  const Node& it = at(node);
  const int port = it.address.port;
  std::string group;
  for (const Node& other : nodes_) group += (group.empty() ? "gcomm://" : ",") + local(other.group_port);
  std::vector<std::string> words{mariadbd_binary(),
                                 "--no-defaults",
                                 "--datadir=" + it.directory + "/data",
                                 "--socket=" + it.address.socket,
                                 "--port=" + std::to_string(port),
                                 "--pid-file=" + it.directory + "/pid",
                                 "--log-error=" + it.directory + "/error.log",
                                 "--tmpdir=" + it.directory,
                                 "--binlog-format=ROW",
                                 "--innodb-autoinc-lock-mode=2",
                                 "--wsrep-on=ON",
                                 "--wsrep-provider=" + galera_library(),
                                 "--wsrep-cluster-name=dblock-test",
                                 "--wsrep-cluster-address=" + group,
                                 "--wsrep-node-name=node" + std::to_string(node),
                                 "--wsrep-node-address=127.0.0.1",
                                 "--wsrep-sst-method=rsync",
                                 "--wsrep-sst-receive-address=" + local(free_ports(1)),
                                 "--wsrep-provider-options=gmcast.listen_addr=tcp://" + local(it.group_port) +
                                     ";ist.recv_addr=" + local(port + 2) +
                                     ";gcache.size=16M;evs.keepalive_period=PT0.3S;"
                                     "evs.inactive_check_period=PT0.3S;evs.suspect_timeout=PT2S;"
                                     "evs.inactive_timeout=PT4S;evs.install_timeout=PT4S"};
  words.insert(words.end(), server_options().begin(), server_options().end());
  return words;
}

void Cluster::launch(int node, const std::vector<std::string>& more) {
  Node& it = at(node);
  Spawn spec{.argv = words(node), .env = it.env, .user = user_, .ends_with_test = true};
  spec.argv.insert(spec.argv.end(), more.begin(), more.end());
  it.process = std::make_unique<Process>(spec);
}

// A node ends with the rsync that it starts, silently where its port was taken meanwhile: once more then.
void Cluster::join(int node, const std::vector<std::string>& more, int size) {
  for (int attempts_left = 2;; --attempts_left) {
    launch(node, more);
    try {
      return await_synced(node, size);
    } catch (const std::runtime_error&) {
      if (attempts_left == 0 || at(node).process->running()) throw;
    }
  }
}

std::string Cluster::url(const std::string& database, const std::vector<int>& nodes) const {
  std::string hosts;
  for (const int node : nodes) hosts += (hosts.empty() ? "" : ",") + local(address(node).port);
  return "mysql://app@" + hosts + "/" + database + "?connect-timeout=2s";
}

void Cluster::kill(int node) {
  at(node).process.reset();  // and what transfers its state
}

void Cluster::isolate(int node) {
  sql(node).sql("SET GLOBAL wsrep_provider_options='gmcast.isolate=1'");
}

void Cluster::heal(int node) {
  sql(node).sql("SET GLOBAL wsrep_provider_options='gmcast.isolate=0'");
}

// What the node had applied when it was killed, so that it asks for no more than what it missed.
std::string Cluster::position(int node) const {
  Spawn spec{.argv = words(node), .env = at(node).env, .user = user_, .ends_with_test = true};
  const std::string log = at(node).directory + "/recovery.log";
  std::replace(spec.argv.begin(), spec.argv.end(), "--log-error=" + at(node).directory + "/error.log",
               "--log-error=" + log);
  spec.argv.emplace_back("--wsrep-recover");
  require_done(run_program(spec, k_patience));
  const std::string text = read_file(log);
  const std::string before = "Recovered position: ";
  const auto at_word = text.rfind(before);
  if (at_word == std::string::npos) throw std::runtime_error("no position in " + text);
  const auto begin = at_word + before.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

void Cluster::start(int node) {
  join(node, {"--wsrep-start-position=" + position(node)}, k_size);
}

void Cluster::catch_up(const std::string& database) {
  for (int node = 1; node <= k_size; ++node) {
    auto root = sql(node);
    root.sql("SET SESSION wsrep_sync_wait=15");
    root.sql("SELECT COUNT(*) FROM " + database + ".dblock_schema");
  }
}

void Cluster::await_synced(int node, int size) {
  std::string state;
  const bool synced = wait_until(
      [&] {
        if (!at(node).process->running()) return true;
        try {
          auto root = sql(node);
          state.clear();
          for (const char* name : {"cluster_status", "cluster_size", "local_state_comment", "ready"})
            state += root.sql(std::string("SHOW STATUS LIKE 'wsrep_") + name + "'").at(0).at(1) + " ";
        } catch (const std::exception& error) {
          state = error.what();
        }
        return state == "Primary " + std::to_string(size) + " Synced ON ";
      },
      k_patience);
  if (!synced || !at(node).process->running())
    throw std::runtime_error("node " + std::to_string(node) + " is not synced: " + state + log_of(node));
}

void Cluster::await_cut_off(int node) {
  const bool noticed = wait_until(
      [&] { return sql(node).sql("SHOW STATUS LIKE 'wsrep_ready'").at(0).at(1) == "OFF"; }, k_patience);
  if (!noticed) throw std::runtime_error("node " + std::to_string(node) + " has a majority: " + log_of(node));
}

std::string Cluster::log_of(int node) const {
  const std::string log = read_file(at(node).directory + "/error.log");
  return "; its log ends so:\n" + log.substr(log.size() - std::min<std::size_t>(log.size(), 6000));
}

Cluster& shared_cluster() {
  static Cluster cluster;
  return cluster;
}

}  // namespace dblock::test
