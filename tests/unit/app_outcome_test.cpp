#include <utility>
#include <vector>

#include "app/words/ending.hpp"
#include "support/catch.hpp"

namespace dblock::app {
namespace {

using How = Ending::How;

Exit exit_of(How how, int number = 0) {
  Ending ending;
  ending.how = how;
  ending.number = number;
  return outcome_of(ending).exit;
}

TEST_CASE("every error has the exit code of the contract and an exit line") {
  const std::vector<std::pair<Errc, int>> table{
      {Errc::usage, 64},         {Errc::config, 78},      {Errc::schema, 78},   {Errc::unreachable, 69},
      {Errc::indeterminate, 69}, {Errc::denied, 77},      {Errc::held, 75},     {Errc::lost, 76},
      {Errc::not_found, 127},    {Errc::cannot_run, 126}, {Errc::internal, 70},
  };
  for (const auto& [errc, code] : table) {
    const auto ending = Ending::failed(Error{errc, "why"});
    const Exit exit = outcome_of(ending).exit;
    CHECK(exit.code == code);
    CHECK(exit.announced);
    CHECK_FALSE(exit.reason.empty());
    CHECK(ending.message == "why");
  }
}

TEST_CASE("the job's own code passes without an exit line") {
  for (const int code : {0, 1, 75, 255}) {
    CHECK(exit_of(How::job_exited, code).code == code);
    CHECK_FALSE(exit_of(How::job_exited, code).announced);
  }
  CHECK(exit_of(How::job_signalled, 9).signal == 9);
  CHECK_FALSE(exit_of(How::job_signalled, 9).announced);
}

TEST_CASE("endings of dblock's own are announced") {
  CHECK(exit_of(How::success).code == 0);
  CHECK_FALSE(exit_of(How::success).announced);
  CHECK(exit_of(How::interrupted, 15).code == 143);
  CHECK(exit_of(How::interrupted, 15).signal == 15);
  CHECK(exit_of(How::interrupted, 15).announced);
  CHECK(exit_of(How::lost).code == 76);
  CHECK(exit_of(How::timed_out).code == 124);
  CHECK(exit_of(How::stale).code == 1);
  CHECK(exit_of(How::overdue).code == 1);
  CHECK(exit_of(How::failing).code == 1);
  CHECK(exit_of(How::refused).code == 64);
  CHECK(exit_of(How::unfit).code == 78);
}

TEST_CASE("a job that was done for its period is a quiet success") {
  CHECK(exit_of(How::skipped).code == 0);
  CHECK_FALSE(exit_of(How::skipped).announced);
}

TEST_CASE("the code of a conflict is the one asked for and zero says nothing") {
  CHECK(exit_of(How::held, 75).announced);
  CHECK(exit_of(How::held, 99).code == 99);
  CHECK(exit_of(How::held, 99).announced);
  CHECK(exit_of(How::held, 0).code == 0);
  CHECK_FALSE(exit_of(How::held, 0).announced);
}

}  // namespace
}  // namespace dblock::app
