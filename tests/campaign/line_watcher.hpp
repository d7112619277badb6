// Looks at the lines of a campaign again and again, and writes down who stood in which for how long.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "campaign/history.hpp"
#include "campaign/stage.hpp"

namespace dblock::campaign {

class LineWatcher {
 public:
  // `step`: as in the history's terms.
  LineWatcher(Stage& stage, const History& history, Nanos step);
  ~LineWatcher();
  LineWatcher(const LineWatcher&) = delete;
  LineWatcher& operator=(const LineWatcher&) = delete;

 private:
  struct Stood {
    Nanos from, until;
    Nanos counts_until;  // by the last look
  };
  using Places = std::map<std::pair<int, std::string>, Stood>;  // op, key

  void watch();
  void look();
  void tell(const Places::value_type& place) const;

  Stage& stage_;
  const History& history_;
  const Nanos step_;
  Places places_;
  std::atomic<bool> over_ = false;
  std::jthread thread_;
};

}  // namespace dblock::campaign
