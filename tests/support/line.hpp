#pragma once

// A held lock "k", a line of named waiters in front of it, and a log of who ran; and what must hold in a line
// on either kind of store.
#include <chrono>
#include <deque>

#include "support/catch.hpp"
#include "support/live_run.hpp"
#include "support/steps.hpp"

namespace dblock::test {

// `Store` is a Database or one of its kinds, made `of` these.
template <class Store>
class LineBefore {
 public:
  template <class... Of>
  explicit LineBefore(const Words& holder_options, const Of&... of)
      : database_(of...), holder_(database_, holder_options) {}

  // Returns once the waiter has its place.
  Process& join(const std::string& name, const Words& options = {}) {
    const Words command = sh("echo " + name + " >>" + file("log"));
    return waiters_.emplace_back(waiting_run(database_, with({"--wait", "120s"}, options), command));
  }
  void release() { REQUIRE(holder_.end() == exited(0)); }
  [[nodiscard]] Words who_ran() const { return lines(read_file(file("log"))); }
  [[nodiscard]] Process& holder() { return holder_; }
  [[nodiscard]] Store& database() { return database_; }
  [[nodiscard]] std::string file(const std::string& name) const { return holder_.file(name); }

 private:
  Store database_;
  LiveRun holder_;
  std::deque<Process> waiters_;
};

// `Line` is a LineBefore.
template <class Line>
void check_order_of_arrival(Line& line, std::size_t count) {
  std::vector<Process*> waiters;
  Words expected;
  for (std::size_t i = 0; i < count; ++i) {
    expected.push_back("waiter-" + std::to_string(i));
    waiters.push_back(&line.join(expected.back()));
  }
  CHECK(line.who_ran().empty());
  CHECK(line.database().line().size() == count);
  line.release();
  for (Process* waiter : waiters) CHECK(waiter->wait() == exited(0));
  CHECK(line.who_ran() == expected);
  CHECK(line.database().line().empty());
}

// The guardian of who is killed gives its place up. `gone`: checks what else their store must have forgotten
// of the two.
template <class Line, class Gone>
void check_stopped_and_killed_leave_nothing(Line& line, const Gone& gone) {
  Process& first = line.join("first");
  Process& stopped = line.join("stopped");
  Process& second = line.join("second");
  Process& killed = line.join("killed");
  Process& third = line.join("third");
  stopped.signal(SIGTERM);
  CHECK(stopped.wait() == killed_by(SIGTERM));
  CHECK(stopped.tree().empty());
  killed.signal(SIGKILL);
  CHECK(killed.wait() == killed_by(SIGKILL));
  CHECK(soon_gone(killed));
  CHECK(line.database().line().size() == 3);
  gone();
  line.release();
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(third.wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second", "third"});
  CHECK_FALSE(line.database().has_holder("k"));
}

// Who stands behind a frozen waiter passes it once the lock has been free for three seconds.
template <class Line>
void check_frozen_waiter_is_passed(Line& line) {
  Process& frozen = line.join("frozen");
  Process& second = line.join("second");
  Process& third = line.join("third");
  frozen.freeze();
  line.release();
  // A waiter that nobody wakes, the next best answer, would look after 30 s.
  CHECK(second.wait(10s * slowness()) == exited(0));
  CHECK(third.wait(10s * slowness()) == exited(0));
  CHECK(line.who_ran() == Words{"second", "third"});
  CHECK(line.database().line().empty());
  CHECK(frozen.running());
  frozen.signal(SIGCONT);
  CHECK(frozen.wait() == exited(0));
  CHECK(line.who_ran() == Words{"second", "third", "frozen"});
}

template <class Line>
void check_holders_death_wakes(Line& line) {
  Process& first = line.join("first");
  Process& second = line.join("second");
  line.holder().signal(SIGKILL);
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second"});
}

template <class Line>
void check_wait_ends_in_time(Line& line) {
  Process& first = line.join("first");
  const auto before = std::chrono::steady_clock::now();
  const auto late = dblock(line.database(), run_words("k", {"--wait", "700ms"}, {"true"}));
  const auto took = std::chrono::steady_clock::now() - before;
  CHECK(late.exit == exited(75));
  CHECK(ends_with_exit_line(late.err, 75));
  CHECK(took >= 700ms);
  Process& second = line.join("second");
  line.release();
  CHECK(first.wait() == exited(0));
  CHECK(second.wait() == exited(0));
  CHECK(line.who_ran() == Words{"first", "second"});
}

}  // namespace dblock::test
