#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "process/process_info.hpp"
#include "support/catch.hpp"

namespace dblock::process {

TEST_CASE("a process has one mark, and others have others") {
  const std::string mine = process_digest(::getpid());
  CHECK(mine.size() == 16);
  CHECK(mine.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(process_digest(::getpid()) == mine);
  CHECK(process_digest(::getppid()) != mine);
  CHECK(process_digest(0x7ffffffe).empty());
}

TEST_CASE("the processes above are known by their marks, the caller and its children are not among them") {
  const auto above = ancestor_digests();
  REQUIRE_FALSE(above.empty());
  CHECK(above.front() == process_digest(::getppid()));
  CHECK(std::ranges::find(above, process_digest(::getpid())) == above.end());
  const std::string mine = process_digest(::getpid());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ancestor_digests().front() == mine ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace dblock::process
