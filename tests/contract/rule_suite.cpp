// The contract of the grant: which lock, in which state, is granted to an exclusive request. The rule stands
// in {is_free} and {our_turn} of sql/verbs/terms.sql, whose conditions each store counts on clocks of its
// own, in store/rules/sharing.cpp and lease/line.cpp, and in {become_exclusive} of sql/procedures/terms.sql.
// Here it is told once more, as the manual tells it, and each text must give the same verdict for every
// state.
#include <algorithm>
#include <array>
#include <set>

#include "contract/store_fixture.hpp"
#include "lease/line.hpp"

namespace dblock::contract {

namespace {

enum class HolderIs { nobody, running, within_margin, past_margin, revoked };
enum class PauseIs { never, running, past };
// The last ones of each are there only where a clock was set back.
enum class CooldownIs { never, running, past, longer_than_asked };
enum class SuccessIs { never, within_period, longer_ago, little_ahead, far_ahead };
// Another's place. absent: the lock has been free for long, and its waiter does not come. newest: that waiter
// leaves for others who wait.
enum class LineIs { empty, there, ended, absent, newest, counts_too_long };
enum class LastGrant { no_row, never, exclusive, slots };

struct LockState {
  HolderIs holder{};
  CooldownIs cooldown{};
  PauseIs pause{};
  SuccessIs success{};
  LineIs line{};
  LastGrant last{};
};

bool was_granted(const LockState& lock) {
  return lock.last == LastGrant::exclusive || lock.last == LastGrant::slots;
}

constexpr Micros k_margin_of_states = 10s;
// Between a tenth less than the period and the period itself lies a success that counts no more.
constexpr OncePer k_once_an_hour{1h};

// Whether the request waits itself, and then where in the line.
enum class Stands { nowhere, behind, before };

// A way to ask for the lock.
struct Way {
  const char* name;
  bool several = false;       // with a second key, which is free
  bool looks = false;         // look() and not try_acquire()
  bool names_period = false;  // --once-per
  Stands stands{};
};
// Where the store is one for applications, dblock_acquire answers those of one key that name no period.
constexpr std::array k_ways{Way{"singly"},
                            Way{"singly, by a look", false, true, true},
                            Way{"singly, once an hour", false, false, true},
                            Way{"with a second key, by a look", true, true, true},
                            Way{"with a second key", true, false, true},
                            Way{"singly, behind in the line", false, false, false, Stands::behind},
                            Way{"singly, before in the line", false, false, false, Stands::before},
                            Way{"with a second key, behind in the line", true, false, false, Stands::behind},
                            Way{"with a second key, before in the line", true, false, false, Stands::before}};

// What the line has nothing to do with is asked for without a place.
std::vector<Way> ways_to(const LockState& lock) {
  const bool is_plain = lock.success == SuccessIs::never && lock.cooldown == CooldownIs::never;
  std::vector<Way> ways;
  std::ranges::copy_if(k_ways, std::back_inserter(ways),
                       [&](const Way& way) { return is_plain || way.stands == Stands::nowhere; });
  return ways;
}

enum class Verdict { granted, held, done, error };

// The rule in the manual's words. The first line that applies decides; where none does, the lock is granted.
struct RuleLine {
  const char* words;
  bool (*applies)(const LockState&, const Way&);
  Verdict verdict;
};
constexpr std::array k_rule{
    RuleLine{"when a job under this key last succeeded less than D - D/10 ago, do not start",
             [](const LockState& lock, const Way& way) {
               return way.names_period &&
                      (lock.success == SuccessIs::within_period || lock.success == SuccessIs::little_ahead);
             },
             Verdict::done},
    RuleLine{"a lease is never granted while another of the same lock is within expire_time + margin",
             [](const LockState& lock, const Way&) {
               return lock.holder == HolderIs::running || lock.holder == HolderIs::within_margin;
             },
             Verdict::held},
    RuleLine{"a revoked key is granted when the holder releases, or at expire_time + margin",
             [](const LockState& lock, const Way&) { return lock.holder == HolderIs::revoked; },
             Verdict::held},
    RuleLine{"a cooldown keeps the lock after the job has ended",
             [](const LockState& lock, const Way&) { return lock.cooldown == CooldownIs::running; },
             Verdict::held},
    RuleLine{"no new grant under a paused key until the pause ends",
             [](const LockState& lock, const Way&) { return lock.pause == PauseIs::running; }, Verdict::held},
    RuleLine{"refused while a place before the caller's is alive; a lock that has been free for 3 s goes to "
             "whoever asks",
             [](const LockState& lock, const Way& way) {
               return !way.looks && way.stands != Stands::before && lock.line == LineIs::there;
             },
             Verdict::held},
    RuleLine{"newest: a waiting run leaves when another begins to wait",
             [](const LockState& lock, const Way& way) {
               return !way.looks && way.stands == Stands::nowhere && lock.line == LineIs::newest;
             },
             Verdict::held},
};

// A look calls these locks free, and leaves the refusal to the try: a lock without a row, whose pause no row
// tells, and a lock that others use in another way (slots), which is an error of usage.
bool refused_by_try_alone(const LockState& lock) {
  return lock.last == LastGrant::no_row ||
         (lock.last == LastGrant::slots &&
          (lock.holder == HolderIs::running || lock.holder == HolderIs::revoked));
}

const RuleLine& line_of_rule(const LockState& lock, const Way& way) {
  static constexpr RuleLine k_granted{"else it is granted", nullptr, Verdict::granted};
  static constexpr RuleLine k_left_to_try{"a look leaves this refusal to the try", nullptr, Verdict::granted};
  const auto line = std::ranges::find_if(k_rule, [&](const RuleLine& one) { return one.applies(lock, way); });
  if (line == k_rule.end()) return k_granted;
  const bool left = way.looks && line->verdict == Verdict::held && refused_by_try_alone(lock);
  return left ? k_left_to_try : *line;
}

template <typename Enum>
std::vector<Enum> up_to(Enum last) {
  std::vector<Enum> all;
  for (int i = 0; i <= static_cast<int>(last); ++i) all.push_back(static_cast<Enum>(i));
  return all;
}

// A row that was never granted has no holder, cooldown or success. Since when a lock without a row is free
// nobody knows, and until a cooldown that does not count seems to end, the lock is not called free for long.
// A success has nothing to do with waiters that do not come. What a set clock leaves, and a waiter that
// leaves for others, are tried where nothing else refuses.
bool can_be(const LockState& lock) {
  const bool is_seldom =
      lock.cooldown > CooldownIs::past || lock.success > SuccessIs::longer_ago || lock.line > LineIs::absent;
  const bool is_free = lock.pause == PauseIs::never &&
                       (lock.holder == HolderIs::nobody || lock.holder == HolderIs::past_margin);
  if (is_seldom && !is_free) return false;
  if (lock.line == LineIs::absent && (lock.last == LastGrant::no_row || lock.success != SuccessIs::never ||
                                      lock.cooldown > CooldownIs::past))
    return false;
  return was_granted(lock) || (lock.holder == HolderIs::nobody && lock.cooldown == CooldownIs::never &&
                               lock.success == SuccessIs::never);
}

// Two halves, which run beside each other.
std::vector<LockState> all_states(bool of_slots) {
  std::vector<LockState> states;
  for (const auto last : up_to(LastGrant::slots))
    for (const auto line : up_to(LineIs::counts_too_long))
      for (const auto success : up_to(SuccessIs::far_ahead))
        for (const auto pause : up_to(PauseIs::past))
          for (const auto cooldown : up_to(CooldownIs::longer_than_asked))
            for (const auto holder : up_to(HolderIs::revoked)) {
              const LockState state{holder, cooldown, pause, success, line, last};
              if ((last == LastGrant::slots) == of_slots && can_be(state)) states.push_back(state);
            }
  return states;
}

template <typename Time>
std::optional<Micros> ends(Time time, Micros freed) {
  if (time == Time::never) return std::nullopt;
  return time == Time::past ? freed : Micros{1h};
}

std::optional<Micros> succeeded(SuccessIs success) {
  static constexpr std::array<Micros, 4> k_times{-53min, -55min, 5min, 7min};
  if (success == SuccessIs::never) return std::nullopt;
  return k_times.at(static_cast<std::size_t>(success) - 1);
}

// The lock's own row, and where its last holders had slots, the rows of these: the second one has the state.
std::vector<RowState> rows_of(const LockState& lock, const std::string& name) {
  if (lock.last == LastGrant::no_row) return {};
  const Micros freed = lock.line == LineIs::absent ? -1min : -10ms;
  RowState row{.key = name, .was_granted = was_granted(lock), .freed = freed, .margin = k_margin_of_states};
  row.paused_until = ends(lock.pause, freed);
  std::vector<RowState> rows{row};
  if (lock.last == LastGrant::slots) {
    rows.front().sharing = {Mode::slot, 2};
    rows.push_back(rows.front());
    rows.back().paused_until.reset();
    rows.back().slot = 1;
    rows.push_back(rows.back());
    rows.back().slot = 2;
  }
  RowState& state = rows.back();
  state.hold_until = ends(lock.cooldown, freed);
  if (lock.cooldown == CooldownIs::longer_than_asked) state.hold_length = 1min;
  state.succeeded = succeeded(lock.success);
  if (lock.holder == HolderIs::nobody) return rows;
  state.owner = "holder";
  state.expires = lock.holder == HolderIs::within_margin ? -k_margin_of_states / 2
                  : lock.holder == HolderIs::past_margin ? freed - k_margin_of_states
                                                         : Micros{50s};
  if (lock.holder == HolderIs::revoked) state.revoked = -1s;
  return rows;
}

class Rule : public Fixture {
 public:
  Rule() { REQUIRE(store->connect()); }

  // The verdicts of all ways on locks in this state; nullopt where the machine was so slow that the locks had
  // been free for long meanwhile.
  std::optional<std::vector<Verdict>> verdicts(const LockState& lock) {
    prefix_ = "k" + std::to_string(++states_) + "-";
    const BootTime made_at = BootClock::now();
    make(lock);
    std::vector<Verdict> verdicts;
    for (const Way& way : ways_to(lock)) verdicts.push_back(ask(way));
    if (BootClock::now() - made_at >= k_line_patience - 500ms) return std::nullopt;
    return verdicts;
  }

 private:
  // A lock for each try, since a grant changes it.
  [[nodiscard]] std::string lock_for(const Way& way) const {
    return prefix_ +
           (way.several        ? "several"
            : way.names_period ? "once"
                               : "plain") +
           std::to_string(static_cast<int>(way.stands));
  }
  static std::string free_one(const std::string& name) { return "free" + name; }

  void make(const LockState& lock) {
    std::set<std::string> names;
    for (const Way& way : ways_to(lock)) names.insert(lock_for(way));
    std::vector<RowState> rows;
    for (const auto& name : names) {
      rows.push_back({.key = free_one(name), .freed = -1min});
      std::ranges::copy(rows_of(lock, name), std::back_inserter(rows));
    }
    under_test->add_rows(rows);
    under_test->set_pause(prefix_, ends(lock.pause, rows.back().freed));
    arrival_.reset();
    if (lock.line != LineIs::empty) make_others_wait(lock.line, {names.begin(), names.end()});
  }

  void make_others_wait(LineIs line, std::vector<std::string> names) {
    auto other = asks_for_all(std::move(names), "waiter");
    if (line == LineIs::newest) other.line = Line::newest;
    other.arrival = waiter_->stand_in_line(other, line == LineIs::counts_too_long ? 2h : 75s, true).value();
    arrival_ = other.arrival;
    // The lock's row still says that somebody may be waiting.
    if (line == LineIs::ended) REQUIRE(waiter_->stand_in_line(other, 1us, false));
  }

  void stand(LeaseRequest& request, Stands where) {
    if (where == Stands::before && arrival_) request.arrival = ServerTime{arrival_->since_epoch - 1s};
    request.arrival = store->stand_in_line(request, 75s, true).value();
  }

  Verdict ask(const Way& way) {
    const std::vector<std::string> names{lock_for(way), free_one(lock_for(way))};
    auto request = way.several ? asks_for_all(names, "us") : asks(names.front(), "us");
    if (way.names_period) request.promises.once_per = k_once_an_hour;
    if (way.stands != Stands::nowhere) stand(request, way.stands);
    const auto answer = way.looks ? store->look(request) : store->try_acquire(request);
    if (!answer && answer.error().code == Errc::usage) return Verdict::held;
    if (!answer) UNSCOPED_INFO(answer.error().message);
    if (!answer) return Verdict::error;
    if (std::holds_alternative<Held>(*answer)) return Verdict::held;
    return std::holds_alternative<Done>(*answer) ? Verdict::done : Verdict::granted;
  }

  std::unique_ptr<LeaseStore> waiter_ = under_test->open();
  std::string prefix_;
  std::optional<ServerTime> arrival_;  // of the other request
  int states_ = 0;
};

std::string in_words(Verdict verdict) {
  static constexpr std::array k_verdicts{"granted", "held", "done", "error"};
  return k_verdicts.at(static_cast<std::size_t>(verdict));
}

std::string in_words(const LockState& lock) {
  static constexpr std::array k_holders{"nobody", "running", "within the margin", "past the margin",
                                        "revoked"};
  static constexpr std::array k_times{"never", "running", "past", "longer than asked for"};
  static constexpr std::array k_successes{"never", "within the period", "longer ago", "a little ahead",
                                          "far ahead"};
  static constexpr std::array k_lines{
      "empty", "somebody", "ended", "somebody who does not come", "newest one", "somebody, for too long"};
  static constexpr std::array k_last{"no row", "never", "exclusive", "slots"};
  const auto word = [](const auto& words, auto value) {
    return std::string(words.at(static_cast<std::size_t>(value)));
  };
  return "holder: " + word(k_holders, lock.holder) + "; cooldown: " + word(k_times, lock.cooldown) +
         "; pause: " + word(k_times, lock.pause) + "; success: " + word(k_successes, lock.success) +
         "; line: " + word(k_lines, lock.line) + "; last grant: " + word(k_last, lock.last);
}

void compare_verdicts(bool of_slots) {
  Rule t;
  for (const LockState& lock : all_states(of_slots)) {
    auto verdicts = t.verdicts(lock);
    while (!verdicts) verdicts = t.verdicts(lock);
    const auto ways = ways_to(lock);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const RuleLine& line = line_of_rule(lock, ways[i]);
      INFO(in_words(lock) + "; asked: " + ways[i].name + "; the rule: " + line.words);
      CHECK(in_words((*verdicts)[i]) == in_words(line.verdict));
    }
  }
}

}  // namespace

STORE_CASE(
    "every way to ask for a lock of one holder gives the verdict of the rule, in every state of the lock",
    "[safety]") {
  compare_verdicts(false);
}

STORE_CASE("every way to ask for a lock of slots gives the verdict of the rule, in every state of the lock",
           "[safety]") {
  compare_verdicts(true);
}

}  // namespace dblock::contract
