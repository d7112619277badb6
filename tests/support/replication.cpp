#include "support/replication.hpp"

#include <functional>
#include <stdexcept>

#include "support/connection.hpp"

namespace dblock::test {
namespace {

std::vector<std::string> options_for(int id, const std::vector<std::string>& more) {
  std::vector<std::string> options{"--log-bin=bin",       "--server-id=" + std::to_string(id),
                                   "--log-slave-updates", "--slave-net-timeout=3",
                                   "--relay-log=relay",   "--binlog-format=ROW"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

// What it has written itself or received, as another may continue from it.
std::string position(const Server& server) {
  return Connection(server.address()).value("SELECT @@gtid_binlog_pos");
}

void await(const std::string& what, const std::function<bool()>& condition) {
  if (!wait_until(condition)) throw std::runtime_error("replication: " + what + " did not happen");
}

}  // namespace

ReplicatingServer::ReplicatingServer(int id, std::vector<std::string> extra_options)
    : Server(options_for(id, extra_options)) {}

void replicate(const Server& replica, const Server& primary) {
  Connection session(replica.address());
  session.sql("SET GLOBAL read_only = 1");
  session.sql("SET GLOBAL gtid_slave_pos = '" + position(primary) + "'");
  session.sql(
      "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = " + std::to_string(primary.address().port) +
      ", MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos");
  start_replication(replica);
}

void stop_replication(const Server& replica) {
  Connection(replica.address()).sql("STOP SLAVE");
}

void start_replication(const Server& replica) {
  Connection session(replica.address());
  session.sql("START SLAVE");
  await("a connection to the primary", [&] {
    return session.value(
               "SELECT variable_value FROM information_schema.global_status WHERE "
               "variable_name = 'Slave_running'") == "ON";
  });
}

void await_caught_up(const Server& replica, const Server& primary) {
  Connection session(replica.address());
  const std::string seconds = std::to_string(std::chrono::ceil<std::chrono::seconds>(patience()).count());
  if (session.number("SELECT MASTER_GTID_WAIT('" + position(primary) + "', " + seconds + ")") != 0)
    throw std::runtime_error("replication: the replica does not catch up");
}

void set_read_only(const Server& server, bool on) {
  Connection(server.address()).sql("SET GLOBAL read_only = " + std::string(on ? "1" : "0"));
}

void promote(const Server& replica) {
  Connection session(replica.address());
  session.sql("STOP SLAVE");
  session.sql("RESET SLAVE ALL");
  session.sql("SET GLOBAL read_only = 0");
}

void switch_over(const Server& from, const Server& to) {
  set_read_only(from, true);
  await_caught_up(to, from);
  const std::string reached = position(to);
  promote(to);
  Connection session(from.address());
  session.sql("SET GLOBAL gtid_slave_pos = '" + reached + "'");
  session.sql(
      "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = " + std::to_string(to.address().port) +
      ", MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos");
  session.sql("START SLAVE");
}

void wait_for_acknowledgements(const Server& primary, milliseconds timeout) {
  Connection session(primary.address());
  session.sql("SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'");
  session.sql("SET GLOBAL rpl_semi_sync_master_timeout = " + std::to_string(timeout.count()));
  session.sql("SET GLOBAL rpl_semi_sync_master_enabled = 1");
}

// The replica says so when it connects.
void acknowledge(const Server& replica, const Server& primary) {
  Connection session(replica.address());
  session.sql("SET GLOBAL rpl_semi_sync_slave_enabled = 1");
  session.sql("STOP SLAVE IO_THREAD");
  session.sql("START SLAVE IO_THREAD");
  await("semi-synchronous replication",
        [&] { return semi_sync(primary, "clients") != "0" && semi_sync(primary, "status") == "ON"; });
}

std::string semi_sync(const Server& primary, const std::string& what) {
  return Connection(primary.address())
      .value(
          "SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
          "'Rpl_semi_sync_master_" +
          what + "'");
}

std::string url_of(const std::vector<int>& ports, const std::string& database, const std::string& parameters,
                   const std::string& user) {
  std::string hosts;
  for (const int port : ports) hosts += (hosts.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(port);
  return "mysql://" + user + "@" + hosts + "/" + database + (parameters.empty() ? "" : "?" + parameters);
}

ReplicatingPair::ReplicatingPair(const Words& primary_options, const Words& replica_options)
    : primary(1, primary_options), replica(2, replica_options) {
  replicate(replica, primary);
  database = std::make_unique<ServerDatabase>(primary.address());
  await_caught_up(replica, primary);
}

std::string ReplicatingPair::url(const std::string& parameters, const std::string& user) const {
  return url_of({primary.address().port, replica.address().port}, database->name(), parameters, user);
}

std::string ReplicatingPair::url_replica_first(const std::string& parameters, const std::string& user) const {
  return url_of({replica.address().port, primary.address().port}, database->name(), parameters, user);
}

std::string ReplicatingPair::column(const Server& server, const std::string& key,
                                    const std::string& name) const {
  return Connection(server.address(), "root", database->name())
      .value("SELECT COALESCE(CAST(" + name + " AS CHAR), 'NULL') FROM dblock_lock WHERE lock_key = '" + key +
             "'");
}

long long ReplicatingPair::expires_micros(const Server& server, const std::string& key) const {
  const auto micros = column(server, key, "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',expire_time)");
  return micros.empty() || micros == "NULL" ? 0 : std::stoll(micros);
}

long long ReplicatingPair::await_renewal(const Server& server, const std::string& key) const {
  const long long before = expires_micros(server, key);
  long long now = 0;
  await("a renewal", [&] { return (now = expires_micros(server, key)) > before; });
  return now;
}

}  // namespace dblock::test
