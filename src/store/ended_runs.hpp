// What has ended and is still to be recorded in the history of runs, where the database does not do that
// itself. What ends a run tells, at no cost, whether a history is kept; the record is a statement of its own
// after that, when nobody waits for it any more.
//
// A trigger on the locks' table would do it in the same transaction, as SQLite's does, but is not to be had
// on a server: it makes LAST_INSERT_ID(expression), by which a grant learns its token, come back as 0; it
// ties every renewal to its definer, who may be dropped; and to the history's table, which may be locked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lease/store.hpp"
#include "store/database.hpp"

namespace dblock::store {

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

class EndedRuns {
 public:
  // Who will be the holder under this owner id.
  void expect(const lease::AcquireRequest& request);
  // `done`: the answer to the statement that freed the row. Nothing where it tells of no history.
  void add(const lease::LeaseRef& ref, lease::RunEnd end, const Effect& done);
  void add_forced(const lease::Key& key, const Effect& done);
  void add_abandoned(const lease::LockStatus& lease, const Effect& done);

  // For transactions that are undone.
  [[nodiscard]] std::size_t mark() const { return runs_.size(); }
  void back_to(std::size_t mark) { runs_.resize(mark); }

  void record(Database& database);

 private:
  std::vector<EndedRun> runs_;
  EndedRun expected_;
};

}  // namespace dblock::store
