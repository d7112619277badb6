// Whether a server's sessions are so scarce that who can do without one for a while leaves it to others.
#pragma once

#include "base/clock.hpp"
#include "store/mariadb/session/connection.hpp"

namespace dblock::store::mariadb {

class Scarcity {
 public:
  // The connection must outlive this. An answer of the server is relied on for `lasts`.
  Scarcity(Connection& connection, Nanos lasts) : connection_(connection), lasts_(lasts) {}

  // More than four fifths of the sessions are in use that the server, or the account, may have. Asks the
  // server where its last answer is too old and the session is open. Where the server does not say, they are
  // not scarce. REQUIRES: a Connection::Call; no reply is awaited.
  [[nodiscard]] bool ask();

 private:
  Connection& connection_;
  const Nanos lasts_;
  bool scarce_ = false;
  BootTime ask_again_{};
};

}  // namespace dblock::store::mariadb
