// The history of runs. What ends a run says, at no cost, whether one is kept (see {tell_history}
// in sql/verbs/mariadb/terms.sql); the record is a statement of its own after that, when nobody waits for it
// any more.
//
// A trigger on the locks' tables would do it in the same transaction, but is not to be had: it makes
// LAST_INSERT_ID(expression), by which a grant learns its token, come back as 0; it ties every renewal to its
// definer, who may be dropped; and to the history's table, which may be locked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/lock_table.hpp"
#include "store/mariadb/connection.hpp"
#include "store/rows.hpp"

namespace dblock::store::mariadb {

// A run that has ended and is not in the history yet.
struct EndedRun {
  std::string key;
  lease::Token token;
  std::string owner;
  bool was_released = true;
  lease::RunEnd end;
  // As far as they are known here; the row tells too, until its next grant.
  lease::Kind kind = lease::Kind::run;
  lease::Mode mode = lease::Mode::exclusive;
  lease::Holder holder{};
};

// What has ended in this session and is still to be recorded.
class EndedRuns {
 public:
  // Who will be the holder under this owner id.
  void expect(const lease::AcquireRequest& request);
  // `changed`: of the statement that freed the row. Nothing where no history is kept.
  void add(const lease::LeaseRef& ref, lease::RunEnd end, const Changed& changed);
  void add_forced(const lease::Key& key, const Changed& changed);
  void add_abandoned(const lease::LockStatus& lease, const Changed& changed);

  // For transactions that are undone.
  [[nodiscard]] std::size_t mark() const { return runs_.size(); }
  void back_to(std::size_t mark) { runs_.resize(mark); }

  void record(Connection& connection);

 private:
  std::vector<EndedRun> runs_;
  EndedRun expected_;
};

// REQUIRES, for all: the connection is open.
[[nodiscard]] Result<lease::History> history_with(Connection& connection, const lease::HistoryQuery& query,
                                                  const std::string& attempt);
// Deletes, or counts, what ended longer ago.
[[nodiscard]] Result<std::uint64_t> forget_runs_with(Connection& connection, Micros forget_after,
                                                     bool dry_run, const std::string& attempt);

}  // namespace dblock::store::mariadb
