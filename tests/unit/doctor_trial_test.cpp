// `doctor --try` on databases that lie: each lie is found, by the check that is there for it.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "doctor/trial.hpp"
#include "store/open.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock {
namespace {

using namespace std::chrono_literals;
using namespace lease;
using doctor::Level;

// What all sessions with the database do wrong.
struct Lies {
  std::function<Answer(const LeaseRequest&, Answer)> answer = [](const LeaseRequest&, Answer told) {
    return told;
  };
  bool renews = true;
  bool shows_line = true;
  bool pauses = true;
  std::function<bool(const LeaseRef&)> releases = [](const LeaseRef&) { return true; };
};

// The token that was told may be a lie.
LeaseRef with_any_token(LeaseRef ref) {
  ref.token.reset();
  return ref;
}

// The embedded store, but for its lies.
class LyingStore final : public LockBook {
 public:
  LyingStore(std::unique_ptr<LockBook> store, const Lies& lies) : store_(std::move(store)), lies_(lies) {}

  Result<void> connect() override { return store_->connect(); }
  Result<Answer> try_acquire(const LeaseRequest& request) override {
    auto told = store_->try_acquire(request);
    if (!told) return told;
    return lies_.answer(request, *told);
  }
  Result<ServerTime> stand_in_line(const LeaseRequest& request, Micros length, bool marks) override {
    return store_->stand_in_line(request, length, marks);
  }
  Result<std::vector<Place>> see_line(const LeaseRequest& request) override {
    if (!lies_.shows_line) return std::vector<Place>();
    return store_->see_line(request);
  }
  void leave_line(const LeaseRequest& request) noexcept override { store_->leave_line(request); }
  Result<Answer> look(const LeaseRequest& request) override { return store_->look(request); }
  Result<RenewOutcome> renew(const LeaseRef& ref, Actor actor, std::optional<Micros> ttl, Micros cooldown,
                             const std::optional<JobNews>& news) override {
    if (!lies_.renews) return NotOurs{};
    return store_->renew(with_any_token(ref), actor, ttl, cooldown, news);
  }
  Result<ReleaseOutcome> release(const LeaseRef& ref, Actor actor, RunEnd end) override {
    auto told = store_->release(with_any_token(ref), actor, end);
    if (!lies_.releases(ref)) return NotOurs{};
    return told;
  }
  void hold(RenewedBy by) noexcept override { store_->hold(by); }
  void end() noexcept override { store_->end(); }
  Result<ForceOutcome> revoke(const Key& key, Token token, const std::string& by,
                              std::optional<ServerTime> arrival) override {
    return store_->revoke(key, token, by, arrival);
  }
  WakeUp* wake_up() noexcept override { return store_->wake_up(); }
  void disconnect() noexcept override { store_->disconnect(); }
  void interrupt() noexcept override { store_->interrupt(); }
  Result<ForceOutcome> free_now(const Key& key, Token token) override { return store_->free_now(key, token); }
  Result<Paused> pause(const PauseRequest& request) override {
    auto told = store_->pause(request);
    if (!lies_.pauses) [[maybe_unused]]
      const auto ended = store_->resume(request.scope);
    return told;
  }
  Result<Resumed> resume(const PauseScope& scope) override { return store_->resume(scope); }
  Result<Listing> list(const Selection& selection) override { return store_->list(selection); }
  Result<ReapReport> reap(const ReapOptions& options) override { return store_->reap(options); }

 private:
  std::unique_ptr<LockBook> store_;
  const Lies& lies_;
};

// Tries such a database, and tells the first bad finding as "CHECK: MESSAGE"; "" when there is none.
std::string first_bad(const Lies& lies, Micros patience = 2s) {
  const TempDirectory directory;
  SystemClock clock;
  const store::Settings settings = store::SqliteSettings{.path = directory.file("locks.db")};
  const auto open = [&] {
    return std::make_unique<LyingStore>(store::open_store(settings, {}, clock), lies);
  };
  for (const auto& finding : doctor::try_out(open, Holder{.host = "h", .pid = 1}, patience))
    if (finding.level == Level::bad) return finding.check + ": " + finding.message;
  return "";
}

// Grants what is refused, where `lies` says so.
Lies grants(const std::function<bool(const LeaseRequest&)>& lies) {
  return {.answer = [lies](const LeaseRequest& request, Answer told) -> Answer {
    if (!std::holds_alternative<Held>(told) || !lies(request)) return told;
    return granted(request, Token{~0ULL}, 1, BootClock::now());
  }};
}

// Answers what is granted otherwise.
Lies answers_to_grant(const Answer& instead) {
  return {.answer = [instead](const LeaseRequest&, Answer told) -> Answer {
    return std::holds_alternative<Granted>(told) ? instead : told;
  }};
}

TEST_CASE("a trial finds nothing bad in a database that keeps its word") {
  CHECK(first_bad({}).empty());
}

TEST_CASE("a trial finds each kind of database that grants what is taken or paused") {
  const auto of_key = [](const char* key) {
    return grants([key](const LeaseRequest& request) { return request.key.bytes() == key; });
  };
  CHECK(first_bad(of_key("dblock doctor")) ==
        "try-refusal: a lock that is held was granted; let no job rely on this database");
  CHECK(first_bad(of_key("dblock doctor 1")) ==
        "try-handover: a request does not wait for a lock that is held; let no job rely on this database");
  CHECK(first_bad(of_key("dblock doctor 2")) ==
        "try-several: one of several locks that are held together was granted; let no job rely on this "
        "database");
  CHECK(first_bad(grants([](const LeaseRequest& request) { return request.sharing.mode == Mode::slot; })) ==
        "try-slots: a third of two slots was granted; let no job rely on this database");
  const auto readers = std::make_shared<bool>();
  CHECK(first_bad({.answer = [readers](const LeaseRequest& request, Answer told) -> Answer {
          const bool beside = *readers && std::holds_alternative<Held>(told);
          *readers = request.sharing.mode == Mode::shared;
          if (!beside) return told;
          return granted(request, Token{~0ULL}, 1, BootClock::now());
        }}) == "try-shared: a writer beside readers was granted; let no job rely on this database");
}

TEST_CASE("a trial finds a database that refuses, forgets or repeats itself") {
  const std::string verdict = "; let no job rely on this database";
  CHECK(first_bad({.renews = false}) == "try-renewal: a lease that has not ended is not renewed" + verdict);
  CHECK(first_bad({.shows_line = false}) ==
        "try-handover: a request that waits has no place in line" + verdict);
  CHECK(first_bad({.pauses = false}) == "try-pause: a paused lock was granted" + verdict);
  CHECK(first_bad({.releases = [](const LeaseRef&) { return false; }}) ==
        "try-handover: the release of a lease that has not ended was not confirmed" + verdict);
  CHECK(first_bad({.releases = [](const LeaseRef& ref) { return ref.mode != Mode::shared; }}) ==
        "try-shared: a lease that has not ended is another's" + verdict);
  CHECK(first_bad(answers_to_grant(Done{})) == "try-grant: another holder has the lock");
  CHECK(first_bad({.answer = [](const LeaseRequest& request, Answer told) -> Answer {
          if (request.sharing.mode != Mode::shared) return told;
          return Held{};
        }}) == "try-shared: a lock that nobody holds is refused" + verdict);
  CHECK(first_bad({.answer = [](const LeaseRequest&, Answer told) -> Answer {
          if (auto* const granted = std::get_if<Granted>(&told)) granted->lease.token = Token{7};
          return told;
        }}) == "try-handover: the next holder's token is not greater" + verdict);
}

TEST_CASE("a trial does not wait for ever for a database that does not answer") {
  const Lies slow{.answer = [](const LeaseRequest&, Answer told) -> Answer {
    std::this_thread::sleep_for(400ms);
    return told;
  }};
  CHECK(first_bad(slow, 100ms) == "try-grant: no answer within 200 ms");
}

}  // namespace
}  // namespace dblock
