// An application that adds numbers to a set while it holds a lock. It minds no deadline, and goes on under
// its token after any pause: nothing but dblock_assert_held() keeps it from writing late.
//
// dblock_set_writer LOG ID SEED DATABASE USER MARGIN_MS LAPSES SOCKET…
//
// It asks the servers by these sockets, starting with number ID modulo their count. LAPSES percent of the
// leases end while it holds them. Until SIGTERM it adds one line to LOG for each event, as workload.hpp reads
// them.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>

#include "cluster/workload.hpp"
#include "support/connection.hpp"

namespace dblock::test {
namespace {

volatile std::sig_atomic_t told_to_stop = 0;

// How long it has a place in the line after a call that was refused: longer than until its next call.
constexpr const char* k_patience = "1000";

// How a try to add a number ended.
enum class Added {
  acknowledged,
  refused,  // by dblock_assert_held()
  undone,   // by the server: a deadlock, or another transaction that came first in the group
  unknown,  // the session was lost, or the server does not take writes
};

// MySQL, at a commit: another transaction of the group came first, or the server has left the group, and the
// others may have committed.
constexpr unsigned k_rolled_back_at_commit = 3101;

// The server has undone the transaction.
bool is_undone(unsigned number) {
  constexpr unsigned k_deadlock = 1213;
  constexpr unsigned k_lock_wait = 1205;
  constexpr unsigned k_snapshot = 1020;  // MariaDB: the row was changed after the snapshot
  return number == k_deadlock || number == k_lock_wait || number == k_snapshot;
}

class Writer {
 public:
  explicit Writer(char** words)
      : log_(::open(words[0], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)),
        id_(std::atoll(words[1])),
        random_(static_cast<unsigned>(std::atoll(words[2]))),
        database_(words[3]),
        user_(words[4]),
        margin_(words[5]),
        lapses_(std::atoi(words[6])) {
    for (char** socket = words + 7; *socket != nullptr; ++socket) servers_.push_back({*socket, 0});
    server_ = static_cast<std::size_t>(id_) % servers_.size();
  }

  void run() {
    while (told_to_stop == 0) {
      if (acquire()) hold();
    }
  }

 private:
  long long draw(long long from, long long to) {
    return std::uniform_int_distribution<long long>(from, to)(random_);
  }
  bool by_chance(int percent) { return draw(0, 99) < percent; }

  void note(const std::string& event, long long number = 0) const {
    const std::string line = event + " " + std::to_string(number) + " " + token_ + "\n";
    if (::write(log_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(99);
  }

  std::vector<Row> sql(const std::string& statement) {
    if (!session_) {
      session_.emplace(servers_.at(server_), user_, database_, k_answer);
      session_->sql("SELECT 1");
    }
    return session_->sql_in_session(statement);
  }

  void go_elsewhere() {
    session_.reset();
    server_ = (server_ + 1) % servers_.size();
    pause_for(milliseconds(draw(20, 200)));
  }

  // Longer than the lease.
  void let_lapse() {
    note("lapsed");
    pause_for(k_ttl + milliseconds(std::atoi(margin_.c_str()) + draw(50, 900)));
  }

  // The same owner id until it is granted, whatever server answers: a grant whose reply was lost is found
  // again.
  bool acquire() {
    owner_ = "writer-" + std::to_string(id_) + "-" + std::to_string(++acquisitions_);
    token_ = "0";
    while (told_to_stop == 0) {
      try {
        const auto rows = sql("CALL dblock_acquire('" + std::string(k_lock) + "','" + owner_ + "'," +
                              std::to_string(k_ttl.count()) + "," + margin_ + "," + k_patience + ",'')");
        if (rows.at(0).at(0) == "granted") {
          token_ = rows.at(0).at(1);
          const auto before = sql("SELECT last_outcome FROM dblock_lock WHERE slot = 0");
          note(before.at(0).at(0) == "abandoned" ? "took_over" : "granted", static_cast<long long>(server_));
          return true;
        }
        pause_for(milliseconds(draw(20, 100)));
      } catch (const SqlError& error) {
        note("unanswered_" + std::to_string(error.number));
        go_elsewhere();
      }
    }
    return false;
  }

  void hold() {
    const int lapse_at = by_chance(lapses_) ? static_cast<int>(draw(1, 4)) : 0;
    const auto additions = draw(2, 12);
    const auto lapsing = lapse_at > 0 ? draw(1, additions) : 0;
    for (auto i = 1; i <= additions && told_to_stop == 0; ++i) {
      if (lapse_at == 0 && by_chance(25)) renew();
      const Added added = add(i == lapsing ? lapse_at : 0);
      if (added == Added::unknown) {
        go_elsewhere();
        if (by_chance(50)) break;  // else under the same token on another server
      } else if (added == Added::refused) {
        break;
      }
    }
    try {
      if (sql("CALL dblock_release('" + std::string(k_lock) + "','" + owner_ + "')").at(0).at(0) ==
          "released")
        note("released");
    } catch (const SqlError&) {
      go_elsewhere();
    }
    pause_for(milliseconds(draw(0, 60)));
  }

  // It adds on whatever the answer is.
  void renew() {
    try {
      sql("CALL dblock_renew('" + std::string(k_lock) + "','" + owner_ + "',NULL)");
    } catch (const SqlError&) {
      go_elsewhere();
    }
  }

  // The pause comes before the transaction, after the assertion, before the commit or, like a frozen
  // process's, before a release that comes too late.
  Added add(int lapse_at) {
    const long long number = id_ * 1'000'000 + ++numbers_;
    const std::string lock = std::string("'") + k_lock + "'";
    bool committing = false;
    try {
      if (lapse_at == 1) let_lapse();
      note("tried", number);
      sql("START TRANSACTION");
      sql("CALL dblock_assert_held(" + lock + "," + token_ + ")");
      if (lapse_at == 2) let_lapse();
      const auto last = sql("SELECT COALESCE(MAX(position), 0) FROM member");
      sql("INSERT INTO member VALUES (" + std::to_string(number) + "," + last.at(0).at(0) + " + 1," + token_ +
          ")");
      if (lapse_at == 3) let_lapse();
      committing = true;
      sql("COMMIT");
      note("acknowledged", number);
      if (lapse_at == 4) let_lapse();
      return Added::acknowledged;
    } catch (const SqlError& error) {
      return give_up(number, error, committing);
    }
  }

  Added give_up(long long number, const SqlError& error, bool committing) {
    constexpr unsigned k_signal = 1644;
    Added added = Added::unknown;
    if (error.number == k_signal && !committing) added = Added::refused;
    if (is_undone(error.number) || (error.number == k_rolled_back_at_commit && is_member()))
      added = Added::undone;
    note(added == Added::refused  ? "refused"
         : added == Added::undone ? "undone"
                                  : "unknown_" + std::to_string(error.number),
         number);
    if (added == Added::unknown) return added;
    try {
      sql("ROLLBACK");
    } catch (const SqlError&) {
      return Added::unknown;
    }
    return added;
  }

  bool is_member() {
    try {
      sql("DO group_replication_get_communication_protocol()");
      return true;
    } catch (const SqlError&) {
      return false;
    }
  }

  static constexpr std::chrono::seconds k_answer{3};
  int log_;
  long long id_;
  std::minstd_rand random_;
  std::string database_, user_, margin_;
  int lapses_;
  std::vector<ServerAddress> servers_;
  std::size_t server_ = 0;
  std::optional<Connection> session_;
  std::string owner_, token_;
  long long acquisitions_ = 0;
  long long numbers_ = 0;
};

}  // namespace
}  // namespace dblock::test

int main(int argc, char** argv) {
  if (argc < 9) {
    std::cerr << "usage: dblock_set_writer LOG ID SEED DATABASE USER MARGIN_MS LAPSES SOCKET…\n";
    return 64;
  }
  std::signal(SIGTERM, [](int) { dblock::test::told_to_stop = 1; });
  dblock::test::Writer(argv + 1).run();
}
