// What `doctor` finds out about the procedures that applications call.
#pragma once

#include "store/facts.hpp"
#include "store/mariadb/examiner_session.hpp"

namespace dblock::store::mariadb {

// Fills facts.procedures. Calls none where an account that may write in this database could exchange them for
// its own. REQUIRES: facts.grants and facts.database are set.
void read_procedures(ExaminerSession& session, HostFacts& facts);

}  // namespace dblock::store::mariadb
