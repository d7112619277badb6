// Applications that wait for a lock beside `dblock run --wait`.
#include <atomic>
#include <thread>

#include "support/application.hpp"
#include "support/catch.hpp"
#include "support/dblock.hpp"

namespace dblock::test {
namespace {

constexpr LockTerms k_turn_terms{30s, 1s};

// Clients that want one lock again as soon as they have had it, until each has had it a few times.
class Turns {
 public:
  explicit Turns(int turns_of_each) : enough_(turns_of_each) {}

  void add_application() {
    start([this] {
      Application application(database_.tcp_url(account_));
      const std::string owner = new_owner_id("app");
      const auto answer = acquire_by_polling(application, "k", owner, k_turn_terms, patience());
      if (answer.outcome != "granted") return false;
      pause_for(k_work);
      const auto release = [&] { return application.release("k", owner); };
      return until_settled(release, patience()).outcome == "released";
    });
  }
  void add_run() {
    start([this] {
      const Words options{"--wait", std::to_string(patience().count()) + "ms"};
      return dblock(database_, run_words("k", options, {"sleep", "0.005"})).exit == exited(0);
    });
  }

  // Returns once every client has had its turns or one has failed.
  void await() {
    static_cast<void>(wait_until([this] { return failed_ || least() >= enough_; }, 2 * patience()));
    over_ = true;
    threads_.clear();
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] int least() const {
    return of_all([](int a, int b) { return a < b; });
  }
  [[nodiscard]] int most() const {
    return of_all([](int a, int b) { return a > b; });
  }

 private:
  static constexpr milliseconds k_work = 5ms;

  void start(std::function<bool()> take_turn) {
    turns_.push_back(std::make_unique<std::atomic<int>>(0));
    threads_.emplace_back([this, &turns = *turns_.back(), take_turn = std::move(take_turn)] {
      while (!over_ && !failed_) {
        bool done = false;
        try {
          done = take_turn();
        } catch (const std::exception&) {
        }
        if (!done) failed_ = true;
        ++turns;
      }
    });
  }
  template <typename Better>
  [[nodiscard]] int of_all(Better better) const {
    int found = *turns_.front();
    for (const auto& turns : turns_) found = better(*turns, found) ? turns->load() : found;
    return found;
  }

  ServerDatabase database_;
  const std::string account_ = database_.application_account();
  const int enough_;
  std::atomic<bool> over_ = false, failed_ = false;
  std::vector<std::unique_ptr<std::atomic<int>>> turns_;
  std::vector<std::jthread> threads_;
};

// Without a place the applications would come after all runs (tests/bench/waiting.sh).
TEST_CASE("applications and runs in one line take turns, and none of them starves",
          "[server][other-servers]") {
  Turns turns(4);
  for (int i = 0; i < 5; ++i) {
    turns.add_application();
    turns.add_run();
  }
  turns.await();
  CHECK_FALSE(turns.failed());
  CHECK(turns.least() >= 4);
  CHECK(turns.most() <= 3 * turns.least());
}

}  // namespace
}  // namespace dblock::test
