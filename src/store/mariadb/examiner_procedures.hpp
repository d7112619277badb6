// What `doctor` finds out about the procedures that applications call.
#pragma once

#include "store/facts.hpp"
#include "store/mariadb/examiner_session.hpp"

namespace dblock::store::mariadb {

// Fills facts.procedures. Calls none where an account that may write in this database could exchange them for
// its own. REQUIRES: facts.grants and facts.database are set.
void read_procedures(ExaminerSession& session, HostFacts& facts);

// Fills facts.calls, as an application with this owner id. Calls none unless all are callable, or where the
// server takes no writes. REQUIRES: read_procedures() and facts.variables.
void try_calls(ExaminerSession& session, HostFacts& facts, const lease::OwnerId& caller);

}  // namespace dblock::store::mariadb
