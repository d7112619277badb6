#include "support/group.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>

namespace dblock::test {
namespace {

constexpr int k_ports_a_node = 2;  // clients, group
constexpr const char* k_plugin = "group_replication.so";
constexpr const char* k_start = "START GROUP_REPLICATION USER='root'";

// Beside the program that mysql/install.sh unpacks, or where the server has been compiled to look for it
// ("").
std::string plugin_directory() {
  const auto root = std::filesystem::path(mysqld_binary()).parent_path();
  for (const char* const below : {"usr/lib/mysql/plugin", "../lib/mysql/plugin", "../lib/plugin"}) {
    if (std::filesystem::exists(root / below / k_plugin)) return (root / below).string();
  }
  return "";
}

}  // namespace

std::string why_no_group() {
  if (!mysql_run()) return "no MySQL server is named (DBLOCK_TEST_MYSQLD)";
  if (plugin_directory().empty()) return std::string("MySQL's plugin is not there: ") + k_plugin;
  if (slowness() != 1) return "three nodes and a sanitizer are too slow together";
  return "";
}

Group::Group(Mode mode, const std::vector<std::string>& options)
    : Nodes(std::nullopt, k_ports_a_node), mode_(mode), options_(options) {
  write_file(network_, "+++");
  std::string ports;
  for (int node = 1; node <= k_size; ++node) ports += ":" + std::to_string(at(node).group_port);
  for (int node = 1; node <= k_size; ++node) {
    at(node).env = {"LD_PRELOAD=" DBLOCK_TEST_BROKEN_NETWORK,
                    "DBLOCK_TEST_NETWORK=" + network_ + ":" + std::to_string(node) + ports};
    copy_data(server_template(), node);
    launch(node, words(node));
  }
  for (int node = 1; node <= k_size; ++node) {
    await_answer(node);
    // Each makes them by itself: a transaction that the others do not have must not be in its log.
    auto root = sql(node);
    root.sql("SET SESSION sql_log_bin=0");
    for (const auto& statement : account_statements()) root.sql(statement);
    if (node == 1) root.sql("SET GLOBAL group_replication_bootstrap_group=ON");
    root.sql(k_start);
    if (node == 1) root.sql("SET GLOBAL group_replication_bootstrap_group=OFF");
    await_synced(node, node);
  }
}

std::vector<std::string> Group::words(int node) const {
  auto words = basic_words(node);
  words.insert(words.end(), server_kind().options.begin(), server_kind().options.end());
  const bool multi = mode_ == Mode::multi_primary;
  words.insert(
      words.end(),
      {server_user_option(), "--server-id=" + std::to_string(node), "--log-bin=binlog", "--gtid-mode=ON",
       "--enforce-gtid-consistency=ON", "--report-host=127.0.0.1", "--plugin-dir=" + plugin_directory(),
       std::string("--plugin-load-add=") + k_plugin,
       "--group-replication-group-name=64626c6f-636b-4000-8000-000000000001",
       "--group-replication-start-on-boot=OFF",
       "--group-replication-local-address=" + on_loopback(at(node).group_port),
       "--group-replication-group-seeds=" + group_addresses(),
       std::string("--group-replication-single-primary-mode=") + (multi ? "OFF" : "ON"),
       std::string("--group-replication-enforce-update-everywhere-checks=") + (multi ? "ON" : "OFF"),
       "--group-replication-member-expel-timeout=0", "--group-replication-unreachable-majority-timeout=5",
       "--group-replication-exit-state-action=READ_ONLY", "--group-replication-autorejoin-tries=0"});
  words.insert(words.end(), options_.begin(), options_.end());
  return words;
}

// Waits until the server answers.
void Group::await_answer(int node) {
  const bool ready = wait_until(
      [&] { return !at(node).process->running() || Connection::can_connect(address(node), "root"); },
      k_patience);
  if (!ready || !at(node).process->running())
    throw std::runtime_error("node " + std::to_string(node) + " does not start" + log_of(node));
}

// In place: the servers have mapped the file.
void Group::set_network(int node, char letter) {
  std::fstream file(network_, std::ios::in | std::ios::out);
  file.seekp(node - 1);
  file.put(letter);
}

std::string Group::own_state(int node) const {
  return sql(node).value(
      "SELECT MAX(member_state) FROM performance_schema.replication_group_members "
      "WHERE member_id=@@server_uuid");
}

void Group::await_cut_off(int node) {
  const bool noticed = wait_until(
      [&] {
        try {
          sql(node).sql("SELECT group_replication_get_communication_protocol()");
          return false;
        } catch (const SqlError&) {
          return true;
        }
      },
      k_patience);
  if (!noticed) throw std::runtime_error("node " + std::to_string(node) + " has a majority" + log_of(node));
}

void Group::await_left(int node) {
  if (!wait_until([&] { return own_state(node) == "ERROR"; }, k_patience))
    throw std::runtime_error("node " + std::to_string(node) + " does not leave its group" + log_of(node));
}

void Group::await_ended(int node) {
  if (!wait_until([&] { return !at(node).process->running(); }, k_patience))
    throw std::runtime_error("node " + std::to_string(node) + " does not end" + log_of(node));
}

// To start takes long on a busy machine, and may fail there; whoever waits for the node tries again. One that
// has never been a member has no state.
void Group::join_if_out(int node) const {
  const std::string now = own_state(node);
  if (now == "ONLINE" || now == "RECOVERING") return;
  Connection root(address(node), "root", "", std::chrono::ceil<std::chrono::seconds>(k_patience));
  if (now == "ERROR") root.sql("STOP GROUP_REPLICATION");
  root.sql(k_start);
}

// What the node's threads are at, where one does not get on.
std::string Group::at_work(int node) const {
  std::string found;
  auto root = sql(node);
  for (const char* const question :
       {"SELECT id, user, command, time, COALESCE(state, ''), COALESCE(LEFT(info, 200), '') "
        "FROM information_schema.processlist",
        "SELECT channel_name, worker_id, service_state, applying_transaction, last_error_message "
        "FROM performance_schema.replication_applier_status_by_worker",
        "SELECT channel_name, service_state, last_error_message "
        "FROM performance_schema.replication_connection_status",
        "SELECT waiting_pid, waiting_query, blocking_pid, blocking_query FROM sys.innodb_lock_waits",
        "SELECT object_type, object_schema, object_name, lock_type, lock_status, owner_thread_id "
        "FROM performance_schema.metadata_locks WHERE lock_status='PENDING' OR object_type='GLOBAL'"}) {
    try {
      for (const auto& row : root.sql(question)) {
        for (const auto& value : row) found += value + " | ";
        found += "\n";
      }
    } catch (const SqlError& error) {
      found += std::string(error.what()) + "\n";
    }
  }
  return found;
}

// What a node says of its group may be of the time before it was frozen or cut off, when the others are about
// to throw it out for its silence. A read that waits for all that came before it goes through the whole
// group, so that they hear of the node; the second one is there since the first may come too late.
void Group::speak_up(int node) const {
  auto root = sql(node);
  root.sql("SET SESSION group_replication_consistency='BEFORE'");
  for (int times = 0; times < 2; ++times) root.sql("SELECT COUNT(*) FROM mysql.db");
}

void Group::await_rejoined(int node) {
  std::string said;
  const auto all_online = [&] {
    try {
      // A busy machine may have had others thrown out, too.
      for (int each = 1; each <= k_size; ++each) join_if_out(each);
      for (int each = 1; each <= k_size; ++each) speak_up(each);
      for (int each = 1; each <= k_size; ++each) {
        const State now = state(each, k_size);
        said = now.said;
        if (!now.synced) return false;
      }
      return true;
    } catch (const SqlError& error) {
      said = error.what();  // the others have not thrown its former life out yet, for example
      return false;
    }
  };
  if (!wait_until(all_online, 2 * k_patience))
    throw std::runtime_error("node " + std::to_string(node) + " has not rejoined: " + said + log_of(node) +
                             "\n" + at_work(node));
}

// Its former life must be gone from the group.
void Group::await_thrown_out(int node) {
  const std::string port = std::to_string(address(node).port) + " ";
  const auto is_member = [&](int other) {
    return other != node && at(other).process && at(other).process->running() &&
           std::ranges::any_of(members(other), [&](const auto& member) { return member.starts_with(port); });
  };
  const bool gone = wait_until([&] { return !is_member(1) && !is_member(2) && !is_member(3); }, k_patience);
  if (!gone) throw std::runtime_error("node " + std::to_string(node) + " is not thrown out" + log_of(node));
}

void Group::start_alone(int node) {
  launch(node, words(node));
  await_answer(node);
}

void Group::start(int node) {
  start_alone(node);
  await_thrown_out(node);
  await_rejoined(node);
}

void Group::catch_up(const std::string& database) {
  for (int node = 1; node <= k_size; ++node)
    await_tables(node, database, "group_replication_consistency='BEFORE'");
}

std::vector<std::string> Group::members(int node) const {
  std::vector<std::string> found;
  auto root = sql(node);
  for (const auto& row : root.sql("SELECT member_port, member_state, member_role "
                                  "FROM performance_schema.replication_group_members ORDER BY member_port"))
    found.push_back(row.at(0) + " " + row.at(1) + " " + row.at(2));
  return found;
}

Nodes::State Group::state(int node, int size) const {
  State state;
  const auto all = members(node);
  state.synced = static_cast<int>(all.size()) == size;
  for (const auto& member : all) {
    state.said += member + "; ";
    state.synced = state.synced && member.find(" ONLINE ") != std::string::npos;
  }
  return state;
}

int Group::primary() {
  std::map<int, int> said;
  for (int node = 1; node <= k_size; ++node) {
    auto& process = at(node).process;
    if (!process || !process->running() || proc_info(process->pid()).state == 'T') continue;
    std::vector<std::string> all;
    try {
      all = members(node);
    } catch (const SqlError&) {
      continue;  // it has just been started
    }
    for (int other = 1; other <= k_size; ++other) {
      if (std::ranges::count(all, std::to_string(address(other).port) + " ONLINE PRIMARY") == 0) continue;
      if (++said[other] == 2) return other;
    }
  }
  return 0;
}

int Group::await_primary(int old) {
  int found = 0;
  if (!wait_until([&] { return (found = primary()) != 0 && found != old; }, k_patience))
    throw std::runtime_error("no primary; node 1" + log_of(1));
  return found;
}

Group& shared_group(Group::Mode mode) {
  static std::map<Group::Mode, std::unique_ptr<Group>> groups;
  auto& group = groups[mode];
  const bool leaves = mode == Group::Mode::single_primary;
  if (!group) {
    const std::string seconds = leaves ? "5" : "0";
    group = std::make_unique<Group>(
        mode, std::vector<std::string>{"--group-replication-unreachable-majority-timeout=" + seconds});
  }
  group->await_rejoined(1);
  return *group;
}

}  // namespace dblock::test
