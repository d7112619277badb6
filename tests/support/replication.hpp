// Real replication between private servers: GTIDs over loopback TCP, asynchronous or semi-synchronous.
#pragma once

#include <string>
#include <vector>

#include "support/dblock.hpp"
#include "support/server.hpp"

namespace dblock::test {

// Started ready to be a primary or a replica of another, which it is not yet. `id` is its own among those it
// meets.
class ReplicatingServer : public Server {
 public:
  explicit ReplicatingServer(int id, std::vector<std::string> extra_options = {});
};

// From now on read-only, and receives what the primary has not written yet. REQUIRES: the two hold the same.
void replicate(const Server& replica, const Server& primary);
void stop_replication(const Server& replica);
void start_replication(const Server& replica);
// Waits until the replica has all that the primary wrote so far.
void await_caught_up(const Server& replica, const Server& primary);

void set_read_only(const Server& server, bool on);
// What the operator does when the primary is gone: takes writes from now on, whatever is missing.
void promote(const Server& replica);
// As planned, nothing is lost: `from` is read-only and a replica of `to` afterwards.
void switch_over(const Server& from, const Server& to);

// Commits on the primary return when a replica has them (AFTER_SYNC), or after `timeout` without.
void wait_for_acknowledgements(const Server& primary, milliseconds timeout);
// REQUIRES: replicate() before.
void acknowledge(const Server& replica, const Server& primary);
// Of rpl_semi_sync_master_…: "clients", "status", "no_tx", "wait_sessions".
[[nodiscard]] std::string semi_sync(const Server& primary, const std::string& what);

// mysql://USER@127.0.0.1:PORT1,127.0.0.1:PORT2/DATABASE?PARAMETERS
[[nodiscard]] std::string url_of(const std::vector<int>& ports, const std::string& database,
                                 const std::string& parameters = "", const std::string& user = "app");

// A primary, its replica, and one database on both.
struct ReplicatingPair {
  explicit ReplicatingPair(const Words& primary_options = {}, const Words& replica_options = {});
  [[nodiscard]] std::string url(const std::string& parameters = "", const std::string& user = "app") const;
  [[nodiscard]] std::string url_replica_first(const std::string& parameters = "",
                                              const std::string& user = "app") const;

  // A key's row as one of the servers has it: "NULL" without a value, "" without a row.
  [[nodiscard]] std::string column(const Server& server, const std::string& key,
                                   const std::string& name) const;
  [[nodiscard]] long long expires_micros(const Server& server, const std::string& key) const;
  // … right after a renewal was seen there; throws when none comes.
  long long await_renewal(const Server& server, const std::string& key) const;

  ReplicatingServer primary;
  ReplicatingServer replica;
  std::unique_ptr<ServerDatabase> database;
};

}  // namespace dblock::test
