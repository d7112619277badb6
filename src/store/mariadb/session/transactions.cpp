// The functions of Connection that run transactions, and pause before another try of what the server rolled
// back.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "store/mariadb/session/connection.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// A lock wait that timed out has cost seconds and means another session's long transaction: the caller must
// keep its own deadline.
constexpr int k_tries_after_lock_wait = 2;
// Several processes that all take a new lock for the first time may each deadlock once with each other one.
constexpr int k_transaction_tries = 8;
constexpr auto k_shortest_pause = 2ms;
constexpr int k_most_doublings = 4;

}  // namespace

Result<void> Connection::in_transaction(const std::function<Result<void>()>& body) {
  for (int tries = 1;; ++tries) {
    auto done = try_transaction(body);
    if (done) return {};
    if (!handle_ || !pause_to_retry(done.error().native, tries, k_transaction_tries)) return done;
  }
}

Result<void> Connection::try_transaction(const std::function<Result<void>()>& body) {
  struct RollBack {
    Connection& connection;
    ~RollBack() { connection.roll_back(); }
  };
  DBLOCK_CHECK(run("START TRANSACTION", Phase::read));
  DBLOCK_CHECK(replied_as_asked(true, Phase::read));
  transaction_ = Transaction::open;
  const RollBack roll_back_at_end{*this};
  DBLOCK_CHECK(body());
  return commit();
}

Result<void> Connection::commit() {
  DBLOCK_CHECK(run("COMMIT", Phase::commit));
  DBLOCK_CHECK(replied_as_asked(false, Phase::commit));
  transaction_ = Transaction::none;
  return {};
}

// Afterwards the session is in no transaction, or closed.
void Connection::roll_back() noexcept {
  const bool began = std::exchange(transaction_, Transaction::none) != Transaction::none;
  if (began && handle_ && !send("ROLLBACK")) close();
}

// A random pause, so that two sessions that deadlocked do not meet again. Seeding waits until the first
// pause, because std::random_device queries the processor's identity, which is slow in a virtual machine.
bool Connection::pause_to_retry(unsigned native, int tries, int most_tries) {
  if (!is_transient(native)) return false;
  if (tries >= (native == k_lock_wait_timed_out ? k_tries_after_lock_wait : most_tries)) return false;
  std::uniform_int_distribution<int> factor(1, 4 << std::min(tries, k_most_doublings));
  if (!random_) random_.emplace(std::random_device{}());
  std::this_thread::sleep_for(k_shortest_pause * factor(*random_));
  return true;
}

}  // namespace dblock::store::mariadb
