// An application of a campaign:
//   application HISTORY DIRECTORY OP URL KEY TTL_MS MARGIN_MS WAIT_MS HOLD_MS SEED
// It takes one lock by dblock's procedures, works, renews at a third of the TTL, writes to two fenced
// stores and releases; by lot it stops renewing, or forgets to release, or acts with its lease after the end
// of it. It has no guardian: it looks at its deadline before each thing it does, and claims the lock only for
// times at which it looked. Exit codes as dblock's: 0, 69, 75, 76.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include "campaign/witness.hpp"
#include "support/application.hpp"
#include "support/config.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;
using test::LockAnswer;
using test::milliseconds;

constexpr milliseconds k_tick = 20ms;
constexpr int k_ticks_a_write = 10;
constexpr std::chrono::seconds k_longest_reply = 1s;
constexpr int k_unreachable = 69, k_conflict = 75, k_lost = 76;

struct Task {
  const History history;
  const std::string directory;
  const int op;
  const std::string url, key;
  const test::LockTerms terms;
  const milliseconds wait, hold;
};

Nanos nanos(milliseconds time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

class CampaignApplication {
 public:
  CampaignApplication(const Task& task, unsigned long seed)
      : task_(task),
        random_(seed),
        application_(task_.url, k_longest_reply),
        life_(LifeFile::for_job(task_.directory, task_.op)) {}

  int go() {
    if (!life_.lock())
      task_.history.add({.kind = "beside", .t = now(), .op = task_.op, .key = "its own run"});
    const LockAnswer answer =
        test::acquire_by_polling(application_, task_.key, owner_, task_.terms, task_.wait);
    if (answer.outcome != "granted") return answer.outcome == "held" ? k_conflict : k_unreachable;
    token_ = answer.token;
    extend(answer);
    if (!begin()) return k_lost;
    const bool held = work();
    // Whether it is lost or not: an application that gives up its lock can try to release it.
    return end(held) && held ? 0 : k_lost;
  }

 private:
  // The lease runs for a TTL at most, whatever the server's clock has done since.
  void extend(const LockAnswer& answer) {
    deadline_ =
        std::max<Nanos>(deadline_, answer.sent_at + nanos(std::min(answer.remaining, task_.terms.ttl)));
    renew_at_ = answer.sent_at + nanos(task_.terms.ttl / 3);
  }
  [[nodiscard]] bool chance(unsigned percent) { return random_() % 100 < percent; }

  bool begin() {
    const bool other = key_is_locked(task_.directory, task_.key);
    const Nanos begun = now();
    if (begun >= deadline_) return false;
    if (other) task_.history.add({.kind = "beside", .t = begun, .op = task_.op, .key = task_.key});
    task_.history.add({.kind = "begin",
                       .t = begun,
                       .op = task_.op,
                       .token = token_,
                       .key = task_.key,
                       .mode = "exclusive"});
    return true;
  }

  // False if the lease was lost.
  bool work() {
    const Nanos until = now() + nanos(task_.hold);
    const bool renews = chance(70);
    Nanos time = now();
    for (int tick = 0; time < until; time = now(), ++tick) {
      if (time >= deadline_) return false;
      life_.sign(time);
      if (renews && time >= renew_at_ && use("renew", application_.renew(task_.key, owner_)) == k_lost)
        return false;
      if (tick % k_ticks_a_write == 0 && now() < deadline_) write();
      test::pause_for(std::min(k_tick, task_.hold));
    }
    return time < deadline_;
  }

  void write() {
    if (chance(50)) return write_fenced(task_.directory, task_.history, task_.op, task_.key, token_);
    write_in_transaction();
  }

  // A call with the lease as the judge is told of it: its code.
  int use(const std::string& verb, const LockAnswer& answer) {
    const bool done = answer.outcome == "renewed" || answer.outcome == "released";
    const int code = done ? 0 : (answer.settled() ? k_lost : k_unreachable);
    tell_use(verb, answer.sent_at, code, answer.outcome);
    if (done && verb == "renew") extend(answer);
    return code;
  }

  void tell_use(const std::string& verb, Nanos from, int code, const std::string& say) const {
    task_.history.add({.kind = "use",
                       .t = now(),
                       .from = from,
                       .ttl = nanos(task_.terms.ttl),
                       .op = task_.op,
                       .code = code,
                       .token = token_,
                       .key = task_.key,
                       .verb = verb,
                       .say = say});
  }

  // Writes the token into the key's row of a table, as dblock_assert_held is meant to be used, and tells
  // which token was there before.
  void write_in_transaction() {
    const std::string of_key = " WHERE lock_key='" + task_.key + "'";
    const std::string token = std::to_string(token_);
    if (application_.ask("START TRANSACTION").kind != test::SqlReply::Kind::rows) return;
    const Nanos sent = now();
    const auto asserted = application_.ask("CALL dblock_assert_held('" + task_.key + "', " + token + ")");
    const Nanos asserted_at = now();
    if (asserted.kind != test::SqlReply::Kind::rows) {
      if (asserted.kind == test::SqlReply::Kind::refused) tell_use("store", sent, k_lost, asserted.error);
      return application_.disconnect();
    }
    if (chance(30)) test::pause_for(milliseconds(random_() % 100));
    const auto before = application_.ask("SELECT token FROM campaign_store" + of_key + " FOR UPDATE");
    const auto written = application_.ask("UPDATE campaign_store SET token=" + token + of_key);
    const Nanos until = now();
    if (before.rows.empty() || written.kind != test::SqlReply::Kind::rows ||
        application_.ask("COMMIT").kind != test::SqlReply::Kind::rows)
      return application_.disconnect();
    tell_use("store", sent, 0, "");
    task_.history.add({.kind = "stored",
                       .t = until,
                       .from = asserted_at,
                       .op = task_.op,
                       .token = token_,
                       .seen = std::stoll(before.rows.front().at(0)),
                       .key = task_.key});
  }

  // True if all that it did with its lease succeeded.
  bool end(bool held) {
    if (chance(25)) {
      act_late();
      return held;
    }
    bool done = true;
    if (chance(80)) {
      const auto answer = test::until_settled(
          [&] {
            auto one = application_.release(task_.key, owner_);
            use("release", one);
            return one;
          },
          task_.terms.ttl);
      done = answer.outcome == "released";
    }
    if (chance(20)) write_in_transaction();
    return done;
  }

  // What an application does that was frozen, or that does not look at its deadline.
  void act_late() {
    const auto most = static_cast<unsigned long>(task_.terms.ttl.count());
    const Nanos at = deadline_ + nanos(milliseconds(static_cast<long>(random_() % most)));
    while (now() < at) test::pause_for(k_tick);
    write_in_transaction();
    use("renew", application_.renew(task_.key, owner_));
    use("release", application_.release(task_.key, owner_));
  }

  const Task& task_;
  std::mt19937_64 random_;
  test::Application application_;
  LifeFile life_;
  const std::string owner_ = test::new_owner_id(holder_name(task_.op));
  long long token_ = 0;
  Nanos deadline_ = 0, renew_at_ = 0;
};

}  // namespace
}  // namespace dblock::campaign

int main(int argc, char** argv) {
  using namespace dblock::campaign;
  if (argc != 11) return 64;
  const auto time = [argv](int at) { return milliseconds(std::atol(argv[at])); };
  const Task task{History(argv[1]), argv[2], std::atoi(argv[3]), argv[4], argv[5], {time(6), time(7)},
                  time(8),          time(9)};
  return CampaignApplication(task, std::strtoul(argv[10], nullptr, 10)).go();
}
