#include "support/cluster.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace dblock::test {
namespace {

namespace fs = std::filesystem;

constexpr int k_ports_a_node = 3;  // clients, group, incremental state transfer

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

// rsync, which a state transfer uses, gives up root's rights.
std::optional<uid_t> ordinary_user() {
  if (::geteuid() != 0) return std::nullopt;
  const passwd* const mysql = ::getpwnam("mysql");
  return mysql != nullptr ? mysql->pw_uid : uid_t{65534};
}

}  // namespace

std::string why_no_cluster() {
  if (mysql_run()) return "MySQL has no Galera";
  if (galera_library().empty()) return "Galera is not installed (Debian: galera-4)";
  if (!installed("wsrep_sst_rsync") || !installed("rsync"))
    return "state transfer by rsync is not installed (Debian: mariadb-server, rsync)";
  if (slowness() != 1) return "three nodes and a sanitizer are too slow together";
  return "";
}

Cluster::Cluster(const std::vector<std::string>& env_of_last) : Nodes(ordinary_user(), k_ports_a_node) {
  at(k_size).env = env_of_last;
  copy_data(server_template(), 1);
  found();
  // All start from the same state, which saves the transfer of everything to each that joins.
  for (int node = 2; node <= k_size; ++node) copy_data(at(1).directory + "/data", node);
  launch_with(1, {"--wsrep-new-cluster"});
  await_synced(1, 1);
  // One after the other: two that join at once wait for each other's timeouts.
  for (int node = 2; node <= k_size; ++node) join(node, {}, node);
}

// The first node alone, with the accounts; stopped again so that its state is on disk.
void Cluster::found() {
  launch_with(1, {"--wsrep-new-cluster"});
  await_synced(1, 1);
  auto root = sql(1);
  for (const auto& statement : account_statements()) root.sql(statement);
  at(1).process->signal(SIGTERM);
  if (at(1).process->wait(k_patience) != exited(0))
    throw std::runtime_error("node 1 does not stop" + log_of(1));
}

std::vector<std::string> Cluster::words(int node) const {
  const int port = address(node).port;
  auto words = basic_words(node);
  words.insert(words.end(),
               {"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON",
                "--wsrep-provider=" + galera_library(), "--wsrep-cluster-name=dblock-test",
                "--wsrep-cluster-address=gcomm://" + group_addresses(),
                "--wsrep-node-name=node" + std::to_string(node), "--wsrep-node-address=127.0.0.1",
                "--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=" + on_loopback(free_ports(1)),
                "--wsrep-provider-options=gmcast.listen_addr=tcp://" + on_loopback(at(node).group_port) +
                    ";ist.recv_addr=" + on_loopback(port + 2) +
                    ";gcache.size=16M;evs.keepalive_period=PT0.3S;"
                    "evs.inactive_check_period=PT0.3S;evs.suspect_timeout=PT2S;"
                    "evs.inactive_timeout=PT4S;evs.install_timeout=PT4S"});
  return words;
}

void Cluster::launch_with(int node, const std::vector<std::string>& more) {
  auto all = words(node);
  all.insert(all.end(), more.begin(), more.end());
  launch(node, all);
}

// A node ends with the rsync that it starts, silently where its port was taken meanwhile: once more then.
void Cluster::join(int node, const std::vector<std::string>& more, int size) {
  for (int attempts_left = 2;; --attempts_left) {
    launch_with(node, more);
    try {
      return await_synced(node, size);
    } catch (const std::runtime_error&) {
      if (attempts_left == 0 || at(node).process->running()) throw;
    }
  }
}

void Cluster::isolate(int node) {
  sql(node).sql("SET GLOBAL wsrep_provider_options='gmcast.isolate=1'");
}

void Cluster::heal(int node) {
  sql(node).sql("SET GLOBAL wsrep_provider_options='gmcast.isolate=0'");
}

// What the node had applied when it was killed, so that it asks for no more than what it missed.
std::string Cluster::position(int node) const {
  Spawn spec{.argv = words(node), .env = at(node).env, .user = user(), .ends_with_test = true};
  const std::string log = at(node).directory + "/recovery.log";
  std::replace(spec.argv.begin(), spec.argv.end(), "--log-error=" + at(node).directory + "/error.log",
               "--log-error=" + log);
  spec.argv.emplace_back("--wsrep-recover");
  const auto recovered = run_program(spec, k_patience);
  if (recovered.exit != exited(0)) throw std::runtime_error(recovered.out + recovered.err);
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
  for (int node = 1; node <= k_size; ++node) await_tables(node, database, "wsrep_sync_wait=15");
}

Nodes::State Cluster::state(int node, int size) const {
  State state;
  auto root = sql(node);
  for (const char* name : {"cluster_status", "cluster_size", "local_state_comment", "ready"})
    state.said += root.sql(std::string("SHOW STATUS LIKE 'wsrep_") + name + "'").at(0).at(1) + " ";
  state.synced = state.said == "Primary " + std::to_string(size) + " Synced ON ";
  return state;
}

void Cluster::await_cut_off(int node) {
  const bool noticed = wait_until(
      [&] { return sql(node).sql("SHOW STATUS LIKE 'wsrep_ready'").at(0).at(1) == "OFF"; }, k_patience);
  if (!noticed) throw std::runtime_error("node " + std::to_string(node) + " has a majority: " + log_of(node));
}

Cluster& shared_cluster() {
  static Cluster cluster;
  cluster.await_rejoined(1);
  return cluster;
}

}  // namespace dblock::test
