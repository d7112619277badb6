// The history of runs: rows of dblock_history, the record of the runs that have ended. Locks do not need this
// table: `migrate --history on` makes it, and jobs run without it.
//
// EndedRuns: runs that have ended and are not in the history yet, where the database does not record them
// itself. The statement that ends a run reports, at no cost, whether a history is kept. A second statement
// records the run later, when no waiter waits for this process any more.
//
// SQLite records runs by a trigger on dblock_lock, in the same transaction. On a server a trigger has three
// faults. It makes LAST_INSERT_ID(expression), by which a grant learns its token, return 0. It ties every
// renewal to the trigger's definer, who may be dropped. It ties every renewal to the history's table, which
// may be locked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/database.hpp"

namespace dblock::store {

struct LockTable;

// A run that has ended and is not in the history yet.
struct EndedRun {
  std::string key;
  lease::Token token;
  std::string owner;
  bool was_released = true;
  lease::RunEnd end;
  // As far as this process knows them. The lock's row knows them too, until its next grant.
  lease::Kind kind = lease::Kind::run;
  lease::Mode mode = lease::Mode::exclusive;
  lease::Holder holder{};
};

class EndedRuns {
 public:
  // Remembers the holder that `request` describes, for the run that will end under its owner id.
  void expect(const lease::LeaseRequest& request);
  // Add a run that has ended, unless no history is kept. `done`: the effect of the statement that freed its
  // row.
  void add(const lease::LeaseRef& ref, lease::RunEnd end, const Effect& done);
  void add_forced(const lease::Key& key, const Effect& done);
  void add_abandoned(const lease::LockStatus& lease, const Effect& done);

  // back_to(size()) forgets the runs that were added in between, by a transaction that was rolled back.
  [[nodiscard]] std::size_t size() const { return runs_.size(); }
  void back_to(std::size_t size) { runs_.resize(size); }

  // Writes all runs to the history and forgets them. A failure is logged, and costs records only.
  void record(Database& database);

 private:
  std::vector<EndedRun> runs_;
  EndedRun expected_;
};

// Records deleted by one statement: few enough to delay no other statement, enough to get on.
inline constexpr std::size_t k_forget_runs = 200;

// A number that a statement reads about what is older than `old`.
[[nodiscard]] Result<std::uint64_t> read_count(LockTable& table, Verb verb, Micros old);
// Deletes the records that are older than that; with `dry_run` only counts them.
[[nodiscard]] Result<std::uint64_t> forget_runs(LockTable& table, Micros forget_after, bool dry_run);

}  // namespace dblock::store
