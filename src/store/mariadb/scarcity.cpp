#include "store/mariadb/scarcity.hpp"

#include "store/mariadb/sql.hpp"

namespace dblock::store::mariadb {

bool Scarcity::ask() {
  if (!connection_.is_open() || BootClock::now() < ask_again_) return scarce_;
  ask_again_ = BootClock::now() + lasts_;
  const Verb verb = connection_.is_mariadb() ? Verb::scarce_mariadb : Verb::scarce_mysql;
  const auto answer = connection_.read(render(verb));  // nobody is told of an error
  scarce_ = answer && !answer->empty() && answer->front()[0] == "1";
  return scarce_;
}

}  // namespace dblock::store::mariadb
