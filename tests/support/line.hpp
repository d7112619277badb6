#pragma once

// A held lock "k", a line of named waiters in front of it, and a log of who ran.
#include <memory>

#include "support/dblock.hpp"

namespace dblock::test {

// `Store` is a Database or one of its kinds.
template <class Store>
class LineBefore {
 public:
  explicit LineBefore(const Words& holder_options)
      : holder_(dblock_spawn(database_, run_words("k", holder_options, sh(until_told(directory_))))) {
    await_file(holder_, file("up"));
  }

  void release() {
    write_file(file("go"), "");
    REQUIRE(holder_.wait() == exited(0));
  }
  [[nodiscard]] Words who_ran() const { return lines(read_file(file("log"))); }
  [[nodiscard]] Process& holder() { return holder_; }
  [[nodiscard]] Store& database() { return database_; }
  [[nodiscard]] std::string file(const std::string& name) const { return directory_.file(name); }

 protected:
  // Starts a waiter, who may not stand in line yet.
  Process& start(const std::string& name, const Words& options) {
    const Words command = sh("echo " + name + " >>" + file("log"));
    waiters_.push_back(std::make_unique<Process>(dblock_spawn(database_, run_words("k", options, command))));
    return *waiters_.back();
  }

 private:
  Store database_;
  TempDir directory_;
  Process holder_;
  std::vector<std::unique_ptr<Process>> waiters_;
};

}  // namespace dblock::test
