// The contract with applications: the exclusive leases are taken, renewed and released by the procedures, in
// sessions that may call these and nothing else. What a procedure cannot be asked for (readers, slots,
// several keys, promises, a place for a process with a number, how a run ended) dblock does beside them, in
// the same tables.
#include "contract/application.hpp"
#include "contract/mariadb_store.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <stdexcept>

namespace dblock::contract {
namespace {

using namespace lease;
using namespace std::chrono_literals;

constexpr int k_tries_while_busy = 20;

class ProcedureStore final : public LockBook {
 public:
  ProcedureStore(test::ServerDatabase& database, const std::string& user, std::unique_ptr<LockBook> dblock,
                 std::atomic<int>& calls)
      : database_(database), user_(user), dblock_(std::move(dblock)), calls_(calls) {}

  Result<void> connect() override { return dblock_->connect(); }

  Result<Answer> try_acquire(const LeaseRequest& request) override {
    if (!may_be_asked_for(request)) return dblock_->try_acquire(request);
    const BootTime sent_at = BootClock::now();
    const auto answer = call([&](Application& application) {
      return application.acquire(request.key.bytes(), request.owner.text,
                                 {milliseconds_of(request.terms.ttl), milliseconds_of(request.terms.margin),
                                  patience(request), "'note'"});
    });
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome == "granted") return granted(request, {std::stoull(answer->token)}, 0, sent_at);
    if (answer->outcome != "held") return unexpected_outcome(*answer);
    // The holder whose end the request waits for. Slots, which dblock would call another use of the lock, are
    // in an application's way as readers are.
    if (auto seen = dblock_->look(request); seen && std::holds_alternative<Held>(*seen)) return seen;
    DBLOCK_TRY(const auto row, row_of(*dblock_, request.key));
    Held held{row.value_or(LockStatus{})};
    held.status.waited_for = answer->holder == "NULL" && held.status.state == State::free;
    return held;
  }

  Result<RenewOutcome> renew(const LeaseRef& ref, Actor actor, std::optional<Micros> ttl, Micros cooldown,
                             const std::optional<JobNews>& news) override {
    DBLOCK_TRY(const auto row, row_of(*dblock_, ref.key));
    if (cooldown > Micros{0} || news || (ttl && !may_be_asked_for(*ttl)) || !may_be_named(ref, row))
      return dblock_->renew(ref, actor, ttl, cooldown, news);
    const std::string ttl_ms = ttl ? milliseconds_of(*ttl) : "NULL";
    const BootTime sent_at = BootClock::now();
    const auto answer = call(
        [&](Application& application) { return application.renew(ref.key.bytes(), ref.owner.text, ttl_ms); });
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome == "renewed")
      return Renewed{sent_at, std::chrono::milliseconds(std::stoll(answer->remaining_ms)), {}};
    if (answer->outcome != "lost") return unexpected_outcome(*answer);
    DBLOCK_TRY(auto why, reason(ref));
    return why;
  }

  Result<ReleaseOutcome> release(const LeaseRef& ref, Actor actor, RunEnd end) override {
    DBLOCK_TRY(const auto row, row_of(*dblock_, ref.key));
    if (end.outcome != RunOutcome::released || !may_be_named(ref, row))
      return dblock_->release(ref, actor, end);
    const auto answer =
        call([&](Application& application) { return application.release(ref.key.bytes(), ref.owner.text); });
    if (!answer) return std::unexpected(answer.error());
    if (answer->outcome == "released") return Released{};
    if (answer->outcome != "lost") return unexpected_outcome(*answer);
    DBLOCK_TRY(auto why, reason(ref));
    return why;
  }

  Result<std::optional<Lease>> nest(const LeaseRequest& request) override { return dblock_->nest(request); }
  // A procedure makes the waiter's name of its owner id, and does not bring back a place that somebody has
  // removed. So only later calls, which keep the place, are an application's.
  Result<ServerTime> stand_in_line(const LeaseRequest& request, Micros length, bool marks) override {
    length_ = length;
    return dblock_->stand_in_line(request, length, marks);
  }
  Result<std::vector<Place>> see_line(const LeaseRequest& request) override {
    return dblock_->see_line(request);
  }
  void leave_line(const LeaseRequest& request) noexcept override {
    if (!may_be_asked_for(request)) return dblock_->leave_line(request);
    // Where that fails, the place ends by itself.
    [[maybe_unused]] const auto answer = call([&](Application& application) {
      return application.release(request.key.bytes(), request.owner.text);
    });
  }
  WakeUp* wake_up() noexcept override { return dblock_->wake_up(); }
  Result<Answer> look(const LeaseRequest& request) override { return dblock_->look(request); }
  void hold(RenewedBy by) noexcept override { dblock_->hold(by); }
  void rest() noexcept override { dblock_->rest(); }
  void end() noexcept override { dblock_->end(); }
  Result<ForceOutcome> revoke(const Key& key, Token token, const std::string& by,
                              std::optional<ServerTime> arrival) override {
    return dblock_->revoke(key, token, by, arrival);
  }
  Result<ForceOutcome> free_now(const Key& key, Token token) override {
    return dblock_->free_now(key, token);
  }
  Result<Listing> list(const Selection& selection) override { return dblock_->list(selection); }
  Result<ReapReport> reap(const ReapOptions& options) override { return dblock_->reap(options); }
  Result<Paused> pause(const PauseRequest& request) override { return dblock_->pause(request); }
  Result<Resumed> resume(const PauseScope& scope) override { return dblock_->resume(scope); }
  Result<History> history(const HistoryQuery& query) override { return dblock_->history(query); }
  void disconnect() noexcept override {
    application_.reset();
    dblock_->disconnect();
  }
  void interrupt() noexcept override { dblock_->interrupt(); }

 private:
  static std::string milliseconds_of(Micros time) { return std::to_string(time.count() / 1000); }
  // A request with a place keeps it, for as long again.
  [[nodiscard]] std::string patience(const LeaseRequest& request) const {
    return request.arrival ? milliseconds_of(length_) : "NULL";
  }

  static bool may_be_asked_for(Micros ttl) { return ttl >= 1s && ttl <= 720h; }
  static bool may_be_asked_for(const LeaseRequest& request) {
    return request.plain() && request.promises.min_hold == Micros{0} && !request.promises.once_per &&
           !request.outer && request.line == Line::fifo && !request.replaceable &&
           may_be_asked_for(request.terms.ttl);
  }
  // A procedure knows no token, and no lease but an application's.
  static bool may_be_named(const LeaseRef& ref, const std::optional<LockStatus>& row) {
    if (!ref.further_keys.empty() || ref.mode.value_or(Mode::exclusive) != Mode::exclusive) return false;
    if (!row || row->owner != ref.owner.text) return true;
    return row->kind == Kind::sql && row->token == ref.token.value_or(row->token);
  }

  // Repeats while the answer is "busy", as an application does.
  Result<ProcedureAnswer> call(const std::function<ProcedureAnswer(Application&)>& make) {
    if (!application_) application_.emplace(database_, user_);
    try {
      for (int tries = 0; tries < k_tries_while_busy; ++tries) {
        ++calls_;
        if (auto answer = make(*application_); answer.outcome != "busy") return answer;
      }
    } catch (const test::SqlError& refused) {
      return fail(Errc::internal, refused.what());
    }
    return fail(Errc::unreachable, "busy");
  }
  static std::unexpected<Error> unexpected_outcome(const ProcedureAnswer& answer) {
    return fail(Errc::internal, "a procedure answered: " + answer.outcome);
  }

  // Why a lease was called lost.
  Result<NotOurs> reason(const LeaseRef& ref) {
    DBLOCK_TRY(auto row, row_of(*dblock_, ref.key));
    if (!row) return NotOurs{NotOursWhy::absent, {}};
    const auto why = [&] {
      if (row->owner.empty()) return NotOursWhy::free;
      if (row->owner != ref.owner.text) return NotOursWhy::other_holder;
      return row->revoked_at ? NotOursWhy::revoked : NotOursWhy::expired;
    }();
    if (why == NotOursWhy::expired && row->state != State::expired)
      return fail(Errc::internal, "called lost, and is not");
    return NotOurs{why, std::move(row)};
  }

  test::ServerDatabase& database_;
  const std::string user_;
  const std::unique_ptr<LockBook> dblock_;
  std::optional<Application> application_;
  Micros length_{0};  // of the last place
  std::atomic<int>& calls_;
};

class ProceduresUnderTest final : public MariadbUnderTest {
 public:
  // A case that calls no procedure is the store's own: it belongs among those tagged [all-of-dblock].
  ~ProceduresUnderTest() override { CHECK(calls_ > 0); }

  std::unique_ptr<LockBook> open() override {
    return std::make_unique<ProcedureStore>(database(), user_, MariadbUnderTest::open(), calls_);
  }

 private:
  const std::string user_ = database().application_account();
  std::atomic<int> calls_{0};
};

}  // namespace

std::unique_ptr<StoreUnderTest> make_store_under_test() {
  return std::make_unique<ProceduresUnderTest>();
}

}  // namespace dblock::contract
