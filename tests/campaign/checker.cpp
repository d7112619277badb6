// The rules. Each is sound on its own: it speaks up only where two facts exclude each other whatever the
// machine's scheduler did, and an interval that a kill left without an end counts as far as its last sure
// sign of life.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "campaign/history.hpp"

namespace dblock::campaign {
namespace {

constexpr int k_lost = 76;
// With these a run says that its job was not started.
const std::set<int> k_nothing_run{64, 69, 75, 77, 78, 126, 127};

bool is_run(const Event& invoke) {
  return invoke.what.starts_with("run");
}

bool is_application(const Event& invoke) {
  return invoke.what.starts_with("application");
}

constexpr Nanos k_for_ever = std::numeric_limits<Nanos>::max();
constexpr Nanos k_long_free = 3 * k_second;  // then a lock goes to whoever asks

// One command, put together from its events.
struct Operation {
  std::optional<Event> invoke, end, ret;
  std::vector<Event> begins;
  Nanos alive_at = 0;  // last sure sign of life
  Event last_sign{};
};

void sign_of_life(Operation& operation, const Event& event) {
  if (event.t <= operation.alive_at) return;
  operation.alive_at = event.t;
  operation.last_sign = event;
}

using Operations = std::map<int, Operation>;

void put_together(Operations& operations, const Event& event) {
  const std::string& kind = event.kind;
  if (kind == "invoke") operations[event.op].invoke = event;
  if (kind == "begin") operations[event.op].begins.push_back(event);
  if (kind == "end") operations[event.op].end = event;
  if (kind == "return") operations[event.op].ret = event;
  if (kind == "begin" || kind == "alive" || kind == "end") sign_of_life(operations[event.op], event);
}

// One grant of one key.
struct Hold {
  const Operation* op;
  const Event* begin;
  // The grant was made before. A script hears of it before it begins.
  [[nodiscard]] Nanos from() const { return op->ret ? std::min(begin->t, op->ret->t) : begin->t; }
  [[nodiscard]] Nanos until() const { return std::max(begin->t, op->alive_at); }
  [[nodiscard]] Nanos invoked() const { return op->invoke ? op->invoke->t : begin->t; }
  [[nodiscard]] long long token() const { return begin->token; }
  [[nodiscard]] Nanos ttl() const { return op->invoke ? op->invoke->ttl : 0; }
  [[nodiscard]] bool of_run() const { return op->invoke && is_run(*op->invoke); }
  [[nodiscard]] bool alone() const { return begin->mode == "exclusive"; }
};

// By key, in order of from().
using Holds = std::map<std::string, std::vector<Hold>>;

Holds holds_of(const Operations& operations) {
  Holds all;
  for (const auto& [op, operation] : operations) {
    for (const Event& begin : operation.begins) all[begin.key].push_back({&operation, &begin});
  }
  for (auto& [key, holds] : all) std::ranges::sort(holds, {}, &Hold::from);
  return all;
}

std::string names(const Hold& hold) {
  return "op " + std::to_string(hold.begin->op) + " (" + hold.begin->mode + ", token " +
         std::to_string(hold.token()) + ")";
}

std::string in_ms(Nanos time) {
  return std::to_string(time / 1'000'000) + " ms";
}

class Judge {
 public:
  Judge(const std::vector<Event>& history, const Judgement& how) : how_(how) {
    for (const Event& event : history) sort_in(event);
    step_ = terms_ ? terms_->step : 0;
    how_.clock_beyond_margin |= terms_ && step_ > terms_->margin;
    holds_ = holds_of(operations_);
  }

  std::vector<Violation> judge() {
    for (const auto& [key, holds] : holds_) {
      if (!how_.clock_beyond_margin) overlaps(key, holds);
      slot_numbers(key, holds);
      token_order(key, holds);
      if (terms_ && !how_.clock_beyond_margin) leases_and_lines(key, holds);
    }
    stale_uses();
    stale_writes();
    stale_transactions();
    deadlines();
    outcomes();
    finals();
    pauses();
    return std::move(found_);
  }

 private:
  void sort_in(const Event& event);
  void overlaps(const std::string& key, const std::vector<Hold>& holds);
  void slot_numbers(const std::string& key, const std::vector<Hold>& holds);
  void token_order(const std::string& key, const std::vector<Hold>& holds);
  void tokens_in_order_of_begin(const std::string& key, const std::vector<Hold>& holds);
  void tokens_in_real_time(const std::string& key, const std::vector<Hold>& holds);
  void leases_and_lines(const std::string& key, const std::vector<Hold>& holds);
  void work_after_the_end(const Hold& hold, const std::vector<Event>& uses);
  void order_of_the_line(const Event& place, const std::vector<const Hold*>& by_token,
                         const std::vector<Nanos>& free_since);
  [[nodiscard]] Nanos in_force_until(const Hold& hold, const std::vector<Event>& uses) const;
  void stale_uses();
  void uses_of_anothers_lease(const std::vector<Hold>& holds, const std::vector<Event>& uses);
  void uses_of_old_tokens(const std::string& key, std::vector<Event> uses);
  void uses_of_ended_leases(const std::vector<Event>& uses);
  void uses_of_revoked_leases();
  void stale_writes();
  void stale_transactions();
  void deadlines();
  void outlived(const Operation& operation, const Event& dark);
  void outcomes();
  void run_outcome(const Operation& operation);
  void finals();
  void pauses();

  void blame(Rule rule, std::string text, std::vector<Event> events) {
    found_.push_back({rule, std::move(text), std::move(events)});
  }

  Judgement how_;
  std::optional<Event> terms_;
  Nanos step_ = 0;
  Operations operations_;
  Holds holds_;
  std::vector<Event> beside_, writes_, stores_, uses_, revokes_, pauses_, dark_, finals_, late_, lines_;
  std::vector<Violation> found_;
};

void Judge::sort_in(const Event& event) {
  put_together(operations_, event);
  if (event.kind == "terms") terms_ = event;
  if (event.kind == "line") lines_.push_back(event);
  if (event.kind == "beside") beside_.push_back(event);
  if (event.kind == "write") writes_.push_back(event);
  if (event.kind == "stored") stores_.push_back(event);
  if (event.kind == "use") uses_.push_back(event);
  if (event.kind == "revoke") revokes_.push_back(event);
  if (event.kind == "paused") pauses_.push_back(event);
  if (event.kind == "dark") dark_.push_back(event);
  if (event.kind == "final") finals_.push_back(event);
  if (event.kind == "late") late_.push_back(event);
}

// Rule 1. A sweep in order of from(); whoever is still at work is kept by the end of it.
void Judge::overlaps(const std::string& key, const std::vector<Hold>& holds) {
  std::multimap<Nanos, const Hold*> at_work;
  for (const Hold& hold : holds) {
    at_work.erase(at_work.begin(), at_work.upper_bound(hold.from()));
    for (const auto& [until, other] : at_work) {
      const bool both_shared = hold.begin->mode == "shared" && other->begin->mode == "shared";
      const bool both_slots = hold.begin->mode == "slots" && other->begin->mode == "slots";
      if (both_shared || both_slots) break;  // then all that are at work are of this mode
      blame(Rule::overlap,
            "two holds of " + key + " for at least " + in_ms(std::min(until, hold.until()) - hold.from()) +
                ": " + names(*other) + " and " + names(hold),
            {*other->begin, other->op->last_sign, *hold.begin, hold.op->last_sign});
    }
    at_work.emplace(hold.until(), &hold);
    if (hold.begin->mode == "slots" && static_cast<int>(at_work.size()) > hold.begin->slots)
      blame(Rule::overlap, std::to_string(at_work.size()) + " holders of " + key + " at once", {*hold.begin});
  }
}

// Rule 1. One slot too many, even if the others' holders are dead and only their leases are left.
void Judge::slot_numbers(const std::string& key, const std::vector<Hold>& holds) {
  for (const Hold& hold : holds) {
    if (hold.begin->slot > hold.begin->slots)
      blame(Rule::overlap,
            names(hold) + " has slot " + std::to_string(hold.begin->slot) + " of " +
                std::to_string(hold.begin->slots) + " of " + key,
            {*hold.begin});
  }
}

// Rule 2.
void Judge::token_order(const std::string& key, const std::vector<Hold>& holds) {
  std::map<long long, const Hold*> by_token;
  for (const Hold& hold : holds) {
    const auto [place, fresh] = by_token.emplace(hold.token(), &hold);
    if (!fresh) {
      blame(Rule::tokens, "token " + std::to_string(hold.token()) + " of " + key + " was given twice",
            {*place->second->begin, *hold.begin});
    }
  }
  if (!how_.clock_beyond_margin) tokens_in_order_of_begin(key, holds);
  tokens_in_real_time(key, holds);
}

// Whoever excludes all who began before was granted after them, however long ago he had asked.
void Judge::tokens_in_order_of_begin(const std::string& key, const std::vector<Hold>& holds) {
  const Hold* greatest = nullptr;
  const Hold* greatest_alone = nullptr;
  for (const Hold& hold : holds) {
    const Hold* const before = hold.alone() ? greatest : greatest_alone;
    if (before != nullptr && hold.token() < before->token()) {
      blame(Rule::tokens, "on " + key + " " + names(hold) + " began after " + names(*before),
            {*before->begin, *hold.begin});
    }
    if (greatest == nullptr || hold.token() > greatest->token()) greatest = &hold;
    if (hold.alone() && (greatest_alone == nullptr || hold.token() > greatest_alone->token()))
      greatest_alone = &hold;
  }
}

// A grant that had completed before another was asked for has the lower token.
void Judge::tokens_in_real_time(const std::string& key, const std::vector<Hold>& holds) {
  std::vector<const Hold*> asked;
  for (const Hold& hold : holds) asked.push_back(&hold);
  std::ranges::sort(asked, {}, [](const Hold* hold) { return hold->invoked(); });
  const Hold* greatest = nullptr;
  auto completed = holds.begin();
  for (const Hold* const hold : asked) {
    for (; completed != holds.end() && completed->from() < hold->invoked(); ++completed) {
      if (greatest == nullptr || completed->token() > greatest->token()) greatest = &*completed;
    }
    if (greatest != nullptr && greatest->token() > hold->token()) {
      blame(Rule::tokens,
            "on " + key + " " + names(*hold) + " was asked for after the grant of " + names(*greatest),
            {*greatest->begin, *hold->begin});
    }
  }
}

// Rules 4 and 5, in the order of the tokens, which is that of the grants.
void Judge::leases_and_lines(const std::string& key, const std::vector<Hold>& holds) {
  std::map<int, std::vector<Event>> uses;
  for (const Event& use : uses_) {
    if (use.key == key) uses[use.op].push_back(use);
  }
  std::vector<const Hold*> by_token;
  for (const Hold& hold : holds) by_token.push_back(&hold);
  std::ranges::sort(by_token, {}, [](const Hold* hold) { return hold->token(); });
  std::vector<Nanos> free_since;  // at the earliest, as the next one finds it
  const Hold* last = nullptr;     // of those so far whose lease is in force the longest
  Nanos until = std::numeric_limits<Nanos>::min();
  for (const Hold* const hold : by_token) {
    free_since.push_back(until);
    const auto& its = uses[hold->begin->op];
    if (last != nullptr && !last->of_run() && hold->from() < until && (last->alone() || hold->alone()))
      blame(Rule::deadline,
            names(*hold) + " was granted " + key + " " + in_ms(until - hold->from()) +
                " before the lease of " + names(*last) + " and its margin were over",
            {*last->begin, *hold->begin});
    if (!hold->of_run()) work_after_the_end(*hold, its);
    const Nanos ends = in_force_until(*hold, its);
    if (last == nullptr || ends > until) last = hold, until = ends;
  }
  for (const Event& place : lines_) {
    if (place.key == key) order_of_the_line(place, by_token, free_since);
  }
}

// The earliest time at which another holder can have been granted the lock after this one: of a run after its
// last sign of life, since what ends it is not told; else after its release, or after its lease and the
// margin, and no earlier than that sign either.
Nanos Judge::in_force_until(const Hold& hold, const std::vector<Event>& uses) const {
  if (hold.of_run()) return hold.until();
  Nanos ends = hold.invoked() + hold.ttl(), released = k_for_ever;
  for (const Event& use : uses) {
    if (use.token != hold.token()) continue;
    if (use.verb == "renew" && use.code == 0) ends = std::max(ends, use.from + use.ttl);
    // A release that was answered "lost" may be the repeat of one that was done.
    if (use.verb == "release") released = std::min(released, use.from);
  }
  const bool killed = !hold.op->ret || hold.op->ret->code < 0;
  if (killed) released = std::min(released, hold.until());
  return std::max(hold.until(), std::min(ends + terms_->margin - step_, released));
}

// Rule 4: a script or an application looks at its deadline before each thing that it does.
void Judge::work_after_the_end(const Hold& hold, const std::vector<Event>& uses) {
  Nanos ends = hold.from() + hold.ttl();
  for (const Event& use : uses) {
    if (use.verb != "renew" || use.code == k_lost || use.from > hold.until()) continue;
    ends = std::max(ends, use.code == 0 ? use.t + use.ttl : k_for_ever);
  }
  if (hold.until() > ends)
    blame(Rule::deadline,
          names(hold) + " was at work on " + hold.begin->key + " " + in_ms(hold.until() - ends) +
              " after the end of its lease",
          {*hold.begin, hold.op->last_sign});
}

// Rule 5. Whoever is granted a lock that has been free for long deletes the places that it passes.
void Judge::order_of_the_line(const Event& place, const std::vector<const Hold*>& by_token,
                              const std::vector<Nanos>& free_since) {
  for (std::size_t i = 0; i < by_token.size(); ++i) {
    const Hold& hold = *by_token[i];
    if (hold.from() < place.from) continue;
    if (i == 0 || hold.from() >= free_since[i] + k_long_free - step_) return;
    if (hold.invoked() > place.from + step_ && hold.from() < place.t && hold.begin->op != place.op)
      blame(Rule::line,
            names(hold) + " was granted " + place.key + " before op " + std::to_string(place.op) +
                ", which came earlier and stood in the line",
            {place, *hold.begin});
  }
}

// Rule 3, a script's verbs.
void Judge::stale_uses() {
  std::map<std::string, std::vector<Event>> by_key;
  std::map<std::pair<std::string, long long>, std::vector<Event>> by_lease;
  for (const Event& use : uses_) {
    by_key[use.key].push_back(use);
    by_lease[{use.key, use.token}].push_back(use);
  }
  for (Event revoke : revokes_) {
    revoke.verb = "revoke";
    by_key[revoke.key].push_back(revoke);
  }
  for (auto& [key, uses] : by_key) {
    if (const auto holds = holds_.find(key); holds != holds_.end())
      uses_of_anothers_lease(holds->second, uses);
    uses_of_old_tokens(key, std::move(uses));
  }
  for (auto& [lease, uses] : by_lease) {
    std::ranges::sort(uses, {}, &Event::from);
    uses_of_ended_leases(uses);
  }
  uses_of_revoked_leases();
}

void Judge::uses_of_anothers_lease(const std::vector<Hold>& holds, const std::vector<Event>& uses) {
  std::map<long long, const Hold*> by_token;
  for (const Hold& hold : holds) by_token.emplace(hold.token(), &hold);
  for (const Event& use : uses) {
    const auto found = by_token.find(use.token);
    if (use.code == 0 && use.op != 0 && found != by_token.end() && found->second->begin->op != use.op)
      blame(Rule::stale,
            use.verb + " by op " + std::to_string(use.op) + " with the lease of " + names(*found->second),
            {*found->second->begin, use});
  }
}

void Judge::uses_of_old_tokens(const std::string& key, std::vector<Event> uses) {
  std::ranges::sort(uses, {}, &Event::from);
  const auto holds = holds_.find(key);
  if (holds == holds_.end()) return;
  const Hold* greatest = nullptr;
  auto completed = holds->second.begin();
  for (const Event& use : uses) {
    for (; completed != holds->second.end() && completed->from() < use.from; ++completed) {
      if (greatest == nullptr || completed->token() > greatest->token()) greatest = &*completed;
    }
    if (use.code == 0 && greatest != nullptr && greatest->token() > use.token) {
      blame(Rule::stale,
            use.verb + " of " + key + " with token " + std::to_string(use.token) +
                " succeeded after the grant of " + names(*greatest),
            {*greatest->begin, use});
    }
  }
}

// All uses of one lease, in the order they were sent in. Where an answer is missing nothing is claimed.
void Judge::uses_of_ended_leases(const std::vector<Event>& uses) {
  const auto operation = operations_.find(uses.front().op);
  if (operation == operations_.end() || operation->second.begins.empty()) return;
  Nanos extended_at = operation->second.begins.front().t;
  std::optional<Event> released;
  for (const Event& use : uses) {
    if (use.code != 0 && use.code != k_lost) return;
    if (use.code != 0) continue;
    if (released && released->t < use.from) {
      blame(Rule::stale, use.verb + " of " + use.key + " succeeded after its release", {*released, use});
    } else if (use.from > extended_at + use.ttl + step_ && !how_.clock_beyond_margin) {
      blame(Rule::stale, use.verb + " of " + use.key + " succeeded after the lease had expired", {use});
    }
    if (use.verb == "release") released = use;
    if (use.verb == "renew") extended_at = std::max(extended_at, use.t);
  }
}

void Judge::uses_of_revoked_leases() {
  std::map<std::pair<std::string, long long>, Event> revoked;
  for (const Event& revoke : revokes_) {
    if (revoke.code != 0) continue;
    const auto [first, fresh] = revoked.emplace(std::pair(revoke.key, revoke.token), revoke);
    if (!fresh && revoke.t < first->second.t) first->second = revoke;
  }
  for (const Event& use : uses_) {
    const auto found = revoked.find({use.key, use.token});
    if (found != revoked.end() && use.verb != "release" && use.code == 0 && use.from > found->second.t)
      blame(Rule::stale, use.verb + " of " + use.key + " succeeded after its revocation",
            {found->second, use});
  }
}

// Rule 3, what the fenced store took.
void Judge::stale_writes() {
  std::map<std::string, const Event*> last;
  std::ranges::stable_sort(writes_, {}, &Event::t);
  for (const Event& write : writes_) {
    if (!write.accepted) continue;
    const Event*& before = last[write.key];
    if (before != nullptr && write.token < before->token) {
      blame(Rule::stale, "the fenced store of " + write.key + " took a write with an old token",
            {*before, write});
    } else if (before != nullptr && write.token == before->token && write.op != before->op) {
      blame(Rule::stale, "the fenced store of " + write.key + " took two holders' writes with one token",
            {*before, write});
    }
    before = &write;
  }
}

// Rule 3, what transactions with dblock_assert_held have written. From the return of the procedure to the
// commit the lock is granted to nobody else, however late the transaction commits.
void Judge::stale_transactions() {
  for (const Event& store : stores_) {
    if (store.seen > store.token)
      blame(Rule::stale, "a transaction with an old token has committed on " + store.key, {store});
    const auto holds = holds_.find(store.key);
    if (holds == holds_.end()) continue;
    const auto& all = holds->second;
    for (auto hold = std::ranges::upper_bound(all, store.from, {}, &Hold::from);
         hold != all.end() && hold->from() < store.t; ++hold) {
      if (hold->token() != store.token)
        blame(Rule::stale,
              names(*hold) + " began on " + store.key + " during a transaction of another holder",
              {store, *hold->begin});
    }
  }
}

// In order; those that overlap are one.
std::vector<Event> apart(std::vector<Event> darks) {
  std::ranges::sort(darks, {}, &Event::t);
  std::vector<Event> united;
  for (const Event& dark : darks) {
    if (!united.empty() && dark.t <= united.back().until)
      united.back().until = std::max(united.back().until, dark.until);
    else
      united.push_back(dark);
  }
  return united;
}

// Rule 4. A renewal that was made was sent before the dark, so the lease ends a TTL after the dark began at
// the latest; whoever is at work later than that, and in the dark still, has outlived it.
void Judge::deadlines() {
  std::map<int, std::vector<Event>> of_group;  // -1: everyone's
  for (const Event& dark : dark_) {
    const auto found = dark.op == 0 ? operations_.end() : operations_.find(dark.op);
    if (found != operations_.end()) outlived(found->second, dark);
    if (dark.op == 0) of_group[dark.group].push_back(dark);
  }
  for (const auto& [group, unsorted] : of_group) {
    const auto darks = apart(unsorted);
    for (const auto& [number, operation] : operations_) {
      if (!operation.invoke || operation.begins.empty()) continue;
      if (group >= 0 && group != operation.invoke->group) continue;
      auto dark = std::ranges::lower_bound(darks, operation.begins.front().t, {}, &Event::until);
      for (; dark != darks.end() && dark->t <= operation.alive_at; ++dark) outlived(operation, *dark);
    }
  }
}

void Judge::outlived(const Operation& operation, const Event& dark) {
  if (!operation.invoke || operation.begins.empty()) return;
  if (!is_run(*operation.invoke) && !is_application(*operation.invoke)) return;
  if (operation.begins.front().t > dark.until) return;
  const Nanos expired = dark.t + operation.invoke->ttl;
  const Nanos seen = std::min(operation.alive_at, dark.until);
  if (seen <= expired + how_.tolerance) return;
  blame(Rule::deadline,
        "the holder of op " + std::to_string(operation.invoke->op) + " was at work " + in_ms(seen - expired) +
            " after its lease had ended",
        {dark, operation.begins.front(), operation.last_sign});
}

// Rule 6.
void Judge::outcomes() {
  for (const Event& late : late_) blame(Rule::outcome, late.say, {late});
  // A file lock that is still held is a process that is still alive.
  for (const Event& beside : beside_) {
    if (!how_.clock_beyond_margin)
      blame(Rule::overlap,
            "op " + std::to_string(beside.op) + " began on " + beside.key +
                " beside a living process of another holder",
            {beside});
  }
  for (const auto& [number, operation] : operations_) {
    if (operation.invoke && !operation.ret && !how_.goes_on)
      blame(Rule::outcome, "op " + std::to_string(number) + " never ended", {*operation.invoke});
    if (operation.invoke && operation.ret && is_run(*operation.invoke)) run_outcome(operation);
  }
}

void Judge::run_outcome(const Operation& operation) {
  const int code = operation.ret->code;
  const std::string op = "op " + std::to_string(operation.ret->op);
  std::set<std::string> keys;
  for (const Event& begin : operation.begins) {
    if (!keys.insert(begin.key).second) blame(Rule::outcome, op + " ran its job twice", operation.begins);
  }
  if (k_nothing_run.contains(code) && !operation.begins.empty())
    blame(Rule::outcome, op + " said that nothing was run, but its job began",
          {operation.begins.front(), *operation.ret});
  if (code == 0 && (operation.begins.empty() || !operation.end))
    blame(Rule::outcome, op + " reported success for a job that did not get to its end", {*operation.ret});
  if (code >= 0 && operation.ret->alive) blame(Rule::outcome, op + " ended before its job", {*operation.ret});
}

void Judge::finals() {
  for (const Event& last : finals_) {
    if (last.held) blame(Rule::outcome, last.key + " was still held when all was over", {last});
    const auto holds = holds_.find(last.key);
    if (holds == holds_.end()) continue;
    const auto greatest = std::ranges::max_element(holds->second, {}, &Hold::token);
    if (greatest->token() > last.token)
      blame(Rule::outcome,
            "the row of " + last.key + " knows no token as late as that of " + names(*greatest),
            {last, *greatest->begin});
  }
}

// Rule 6, of pauses: whoever asked after the pause had been answered did not begin before its end.
void Judge::pauses() {
  if (how_.clock_beyond_margin) return;  // the pause may have ended
  for (const Event& pause : pauses_) {
    const auto holds = holds_.find(pause.key);
    if (holds == holds_.end()) continue;
    for (const Hold& hold : holds->second) {
      if (hold.invoked() > pause.from && hold.from() < pause.t)
        blame(Rule::outcome, pause.key + " was granted under a pause to " + names(hold),
              {pause, *hold.begin});
    }
  }
}

// A script or an application that did not release, a run that lost its lease, or one whose guardian was
// killed with it.
bool left_to_expire(const Operation& operation, const std::set<int>& released, const std::set<int>& crashed) {
  if (!operation.invoke || !operation.ret) return false;
  const int op = operation.invoke->op;
  if (is_run(*operation.invoke)) return operation.ret->code == k_lost || crashed.contains(op);
  return !released.contains(op);
}

// How many holders of a lock were at work at a time.
class AtWork {
 public:
  explicit AtWork(const std::vector<Hold>& holds) {
    for (const Hold& hold : holds) {
      auto& [begins, ends] = times_[hold.begin->mode];
      begins.push_back(hold.from());
      ends.push_back(hold.until());
    }
    for (auto& [mode, times] : times_) std::ranges::sort(times.ends);
  }
  [[nodiscard]] std::ptrdiff_t holders(const std::string& mode, Nanos at) const {
    const auto found = times_.find(mode);
    if (found == times_.end()) return 0;
    const auto& [begins, ends] = found->second;
    return (std::ranges::upper_bound(begins, at) - begins.begin()) -
           (std::ranges::lower_bound(ends, at) - ends.begin());
  }

 private:
  struct Times {
    std::vector<Nanos> begins, ends;
  };
  std::map<std::string, Times> times_;
};

void count_encounters(const Operations& operations, Exercise& all) {
  std::map<std::string, AtWork> of_key;
  for (const auto& [key, holds] : holds_of(operations)) of_key.emplace(key, holds);
  for (const auto& [number, operation] : operations) {
    const auto found = operation.invoke ? of_key.find(operation.invoke->key) : of_key.end();
    if (found == of_key.end()) continue;
    const Event& asks = *operation.invoke;
    const auto holders = [&](const std::string& mode) { return found->second.holders(mode, asks.t); };
    if (asks.mode == "exclusive" && holders("shared") > 0) ++all.met_readers;
    if (asks.mode == "slots" && holders("slots") >= asks.slots) ++all.met_full_slots;
  }
}

// dblock was killed while the job of its run was at work.
bool is_orphaned(const Operation& operation, const Event& kill) {
  return !operation.begins.empty() && operation.begins.front().t < kill.t &&
         (!operation.end || operation.end->t > kill.t);
}

}  // namespace

std::vector<Violation> judge(const std::vector<Event>& history, const Judgement& how) {
  return Judge(history, how).judge();
}

Exercise count(const std::vector<Event>& history) {
  Exercise all;
  Operations operations;
  std::map<std::string, std::map<long long, int>> grants;  // key, token, op
  std::set<int> released, crashed;
  std::vector<Event> kills;
  for (const Event& event : history) {
    put_together(operations, event);
    if (event.kind == "invoke" || event.kind == "use" || event.kind == "revoke") ++all.operations;
    if (event.kind == "begin") grants[event.key].emplace(event.token, event.op);
    if (event.kind == "use" && event.verb == "release" && event.code != k_lost) released.insert(event.op);
    if (event.kind == "use" && event.verb == "store")
      ++(event.code == 0 ? all.by_applications.stores : all.by_applications.refused_stores);
    if (event.kind == "fault" && event.what == "kill both") crashed.insert(event.op);
    if (event.kind == "fault" && event.what == "kill dblock") kills.push_back(event);
    if (event.kind == "paused") ++all.pauses;
    if (event.kind == "line") ++all.places;
    if (event.kind == "write") ++all.writes, all.refused_writes += event.accepted ? 0 : 1;
  }
  for (const auto& [number, operation] : operations) {
    if (!operation.invoke || !operation.ret || operation.ret->code != k_lost) continue;
    if (is_run(*operation.invoke)) ++all.fenced;
    if (is_application(*operation.invoke)) ++all.by_applications.lost;
  }
  for (const auto& [key, by_token] : grants) {
    bool expired = false;
    for (const auto& [token, op] : by_token) {
      const Operation& holder = operations[op];
      const bool application = holder.invoke && is_application(*holder.invoke);
      all.grants += 1;
      all.takeovers += expired ? 1 : 0;
      all.by_applications.grants += application ? 1 : 0;
      all.by_applications.takeovers += application && expired ? 1 : 0;
      expired = left_to_expire(holder, released, crashed);
    }
  }
  for (const Event& kill : kills) all.orphaned += is_orphaned(operations[kill.op], kill) ? 1 : 0;
  count_encounters(operations, all);
  return all;
}

}  // namespace dblock::campaign
