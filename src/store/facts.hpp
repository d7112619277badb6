// What a store tells about itself for `doctor`, which judges it. Plain values, so that tests can make them
// up.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "lease/pause.hpp"
#include "store/config/settings.hpp"

namespace dblock::store {

// Answers of SHOW VARIABLES or SHOW STATUS by name, in lower case.
using Names = std::map<std::string, std::string, std::less<>>;

// How the server answered a statement.
enum class Reply {
  answered,
  denied,    // the account may not
  no_table,  // the table is missing
  no_key,    // there is a view in the place of the table, or it has lost its primary key
  refused,   // another error, which says nothing about the account's rights
};

// A privilege that jobs need, and the reply to a statement that needs it and changes nothing.
struct PrivilegeTried {
  std::string privilege;  // "UPDATE on dblock_lock"
  Reply reply = Reply::answered;
};

// A procedure, and how the server answered a call of it that changes nothing.
struct ProcedureTried {
  enum class Answer {
    callable,
    denied,   // it is there, but this account may not call it
    missing,  // it is not installed
    broken,   // its definer is gone or may not do what it does; `message` is the server's
    foreign,  // not as dblock installs it, by its text or the rights that it runs with; so it was not called
    untried,  // not called, because the account has rights elsewhere, which a procedure of others could use
  };
  std::string name;
  Answer answer = Answer::callable;
  std::string message{};
  bool outdated = false;  // of an older version than this dblock's; known only to an account that may call it
};

// A call of a procedure as an application makes it.
struct CallTried {
  std::string name;
  std::string outcome{};  // of its row; empty: the server refused the call, with `message`
  std::string message{};
};

// A member of a replication group, by what the server believes.
struct GroupMember {
  std::string state;     // "ONLINE", "RECOVERING", "UNREACHABLE", "ERROR", "OFFLINE"
  bool answers = false;  // it is the server itself
};

// The server's clock minus ours, from the middle of the shortest of a few round trips.
struct ClockReading {
  Micros ahead{0};
  Micros uncertainty{0};
};

// What the server allows the account; 0: no limit, or not known.
struct AccountLimits {
  std::uint64_t sessions = 0;       // at a time
  std::uint64_t sessions_used = 0;  // as far as the account may see them
  std::uint64_t queries_per_hour = 0;
  std::uint64_t updates_per_hour = 0;
  std::uint64_t connections_per_hour = 0;
};

// Why the server did not answer.
struct Refusal {
  Reply reply = Reply::refused;
  std::string message;  // the server's: "Table 'd.t' doesn't exist (error 1146)"
};
template <typename T>
using FactOr = std::expected<T, Refusal>;

// One host of the settings.
struct HostFacts {
  std::string host;    // as shown: "db1:3307", "socket /run/x"
  std::string failed;  // why there is no session; everything below is then unknown

  bool over_socket = false;
  TlsMode tls = TlsMode::prefer;
  std::string cipher;  // empty: not encrypted
  Micros connect_time{0};
  std::string version;
  std::string account;  // CURRENT_USER()
  std::string database;

  Names variables;
  Names status;
  std::vector<std::string> grants;  // SHOW GRANTS
  AccountLimits limits;
  std::vector<PrivilegeTried> privileges;

  FactOr<unsigned> schema_version{0};
  // The oldest dblock that can use the schema, by the version which that dblock knows.
  unsigned schema_serves = 0;
  unsigned schema_needed = 0;
  std::vector<std::string> replaced;           // tables of dblock that are none: Reply::no_key
  std::map<std::string, std::string> engines;  // of dblock's tables, as far as the account may see them
  std::string key_type;                        // of dblock_lock.lock_key; empty: not known

  std::vector<ProcedureTried> procedures;  // empty where there are no tables
  // A lock taken, asserted, renewed and released by its procedures, up to the first call that failed. Empty
  // unless that was asked for, and may be called.
  std::vector<CallTried> calls;

  std::optional<bool> keeps_history;               // nullopt: not known, as without tables
  std::vector<PrivilegeTried> history_privileges;  // on dblock_history, where a history is kept

  std::vector<lease::Pause> pauses;  // in effect, as far as the account may see them

  // Whether it is an ONLINE member of the replication group that is configured; nullopt: there is none, or it
  // did not tell.
  std::optional<bool> group_member;
  std::vector<GroupMember> group_members;  // empty: there is no group, or the account may not read them

  std::optional<ClockReading> clock;
  FactOr<std::optional<std::string>> named_lock;  // what GET_LOCK answered
  std::optional<Names> replica;    // the row of SHOW REPLICA STATUS, names in lower case; empty: no replica
  bool replica_known = false;      // the account may read it
  std::string identity;            // of the server behind this session; empty: not known
  std::string identity_of_second;  // of the server behind a second session; empty: not known

  // The value of a variable (or status) by the first of its names that the server knows.
  [[nodiscard]] std::optional<std::string> variable(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] std::optional<std::string> state(std::initializer_list<std::string_view> names) const;
  // "ON" or a number other than 0.
  [[nodiscard]] bool is_on(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] bool is_read_only() const;
  [[nodiscard]] bool in_galera() const;
  // The name of the replication group that is configured; empty: none.
  [[nodiscard]] std::string replication_group() const;
};

struct ServerFacts {
  // The client library and the TLS library in use. An error: neither can be loaded, and no host was asked.
  Result<std::string> client_library;
  std::vector<HostFacts> hosts;  // in the order of the settings
  unsigned min_replicas = 0;     // that the settings ask for
};

// What is inside the embedded store's file.
struct FileContents {
  Result<unsigned> schema_version{0};
  unsigned schema_needed = 0;
  std::optional<bool> keeps_history;  // empty: not known
  std::string journal_mode;
  std::string integrity;               // "ok", or what is wrong
  std::vector<lease::Pause> pauses{};  // in effect
};

// The embedded store.
struct FileFacts {
  // The path of the file, which the first lock creates. An error: why there can be no store.
  Result<std::string> path;
  bool exists = false;
  unsigned mode = 0;                             // st_mode of the file
  std::optional<Result<FileContents>> contents;  // of a file that is there
  Result<std::uint64_t> free_bytes{0};           // on its disk
  Result<void> boot_clock;  // the clock that decides when leases end; an error: it cannot be read
  Micros wall_clock{0};     // since the epoch
};

using Facts = std::variant<ServerFacts, FileFacts>;

}  // namespace dblock::store
