// A store between whose statements a case can act: there other sessions, clocks and people may change its
// rows.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/lease_store_suite.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::contract {

using store::Verb;

// Called before each statement, by the thread that makes the call. An effect that it returns is the
// statement's answer, and the database does not see the statement.
using Step = std::function<std::optional<store::Effect>(Verb)>;

class SteppedDatabase final : public store::Database {
 public:
  SteppedDatabase(std::unique_ptr<store::Database> database, Step step)
      : database_(std::move(database)), step_(std::move(step)) {}

  Result<store::Effect> run(Verb verb, const store::Parameters& parameters) override {
    if (auto answer = step_(verb)) return std::move(*answer);
    return database_->run(verb, parameters);
  }
  Result<store::Effect> run_on_primary(Verb verb, const store::Parameters& parameters) override {
    if (auto answer = step_(verb)) return std::move(*answer);
    return database_->run_on_primary(verb, parameters);
  }

  [[nodiscard]] const char* connecting() const override { return database_->connecting(); }
  Result<void> ensure_open() override { return database_->ensure_open(); }
  Result<void> in_transaction(const Body& body) override { return database_->in_transaction(body); }
  Result<void> in_transaction_if_cheaper(const Body& body) override {
    return database_->in_transaction_if_cheaper(body);
  }
  void expect_release() noexcept override { database_->expect_release(); }
  void rest() noexcept override { database_->rest(); }
  [[nodiscard]] bool refused_null(const Error& why) const override { return database_->refused_null(why); }
  Result<void> safe_to_grant() override { return database_->safe_to_grant(); }
  Result<void> grant_is_safe() override { return database_->grant_is_safe(); }
  Result<bool> kept_by_fence(const lease::Key& key, const Error& why) override {
    return database_->kept_by_fence(key, why);
  }
  Result<bool> waits_for_fence(const lease::Key& key) override { return database_->waits_for_fence(key); }
  [[nodiscard]] lease::WakeUp* wake_up() noexcept override { return database_->wake_up(); }
  void close() noexcept override { database_->close(); }
  void interrupt() noexcept override { database_->interrupt(); }

 private:
  void begin_call(const store::Attempt& attempt, Patience patience) override {
    call_.emplace(*database_, attempt, patience);
  }
  void end_call() noexcept override { call_.reset(); }

  const std::unique_ptr<store::Database> database_;
  std::optional<Call> call_;
  const Step step_;
};

// The rules of leases above this database.
[[nodiscard]] inline std::unique_ptr<lease::LockBook> open_stepped(std::unique_ptr<store::Database> database,
                                                                   Step step) {
  static SystemClock clock;
  auto stepped = std::make_unique<SteppedDatabase>(std::move(database), std::move(step));
  return std::make_unique<store::TableLeaseStore>(std::move(stepped), clock);
}
// A session of its own on the store.
[[nodiscard]] inline std::unique_ptr<lease::LockBook> open_stepped(StoreUnderTest& under_test, Step step) {
  return open_stepped(under_test.open_database(), std::move(step));
}

// Acts once, before the first of these statements that comes.
[[nodiscard]] inline Step once_before(std::vector<Verb> verbs, std::function<void()> act) {
  return [verbs = std::move(verbs), act = std::move(act),
          done = false](Verb verb) mutable -> std::optional<store::Effect> {
    if (!done && std::ranges::find(verbs, verb) != verbs.end()) {
      done = true;
      act();
    }
    return std::nullopt;
  };
}

// After a look at the rows of a lock, and before the first statement that changes what a grant must respect:
// an expired lease, the fence of another holder, the granted rows.
inline const std::vector<Verb> k_steps_of_a_grant{Verb::abandon, Verb::wait_for_fences, Verb::grant_rows,
                                                  Verb::grant_beside};

}  // namespace dblock::contract
