// A stage behind proxies, one for each group of clients: what befalls the way to the servers. What befalls
// the servers themselves, a stage of its own adds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "campaign/stage.hpp"
#include "support/database.hpp"
#include "support/proxy.hpp"

namespace dblock::campaign {

class ProxiedStage : public Stage {
 public:
  // The servers by group of clients. `all_ways`: each client goes through any of the proxies, instead of that
  // of its group. `newest`: what a session sends first so that it reads all that has been acknowledged, or is
  // refused.
  ProxiedStage(const Options& options, const History& history,
               const std::vector<test::ServerAddress>& servers, bool all_ways = false,
               std::vector<std::string> newest = {});

  [[nodiscard]] int groups() const override { return static_cast<int>(proxies_.size()); }
  [[nodiscard]] std::string url(int group) const override;
  // The tests' application knows one host.
  [[nodiscard]] std::string application_url(int group) const override {
    return all_ways_ ? "" : proxy(group).url(database_.name(), application_);
  }
  [[nodiscard]] long long token(const std::string& key) override;
  [[nodiscard]] long long holders(const std::string& key) override;
  [[nodiscard]] std::vector<PlaceSeen> places() override;
  [[nodiscard]] std::optional<Trouble> trouble(Random& random) override;

 protected:
  // What can befall a group, or all.
  struct Kind {
    const char* name;
    std::function<std::optional<Trouble>(Random&, int group, milliseconds length)> make;
  };
  // As often as they are named.
  void add(const std::vector<Kind>& kinds);
  // Nothing while this group or the server has trouble already. `over` is told since when.
  std::optional<Trouble> begin(const std::string& what, int where, milliseconds length,
                               const std::function<void()>& act, std::function<void(Nanos)> over);
  // From `from` to now no renewal of this group's was done. Not where all have every way.
  void dark(Nanos from, int group) const {
    if (!all_ways_) history_.add({.kind = "dark", .t = from, .until = now(), .group = group});
  }
  [[nodiscard]] test::Proxy& proxy(int group) const { return *proxies_[static_cast<std::size_t>(group)]; }
  [[nodiscard]] const std::string& database() const { return database_.name(); }
  [[nodiscard]] const Options& options() const { return options_; }

  static constexpr int k_server = -1;    // among the busy
  static constexpr int k_everyone = -1;  // concerned by a dark
  std::set<int> busy_;                   // groups that have trouble already, or the server

 private:
  std::optional<Trouble> refuse(Random&, int group, milliseconds length);
  std::optional<Trouble> slow_down(Random& random, int group, milliseconds length);
  std::optional<Trouble> stall(Random&, int group, milliseconds length);
  std::optional<Trouble> lose(Random& random, int group, milliseconds length, test::Proxy::Cut how,
                              const std::string& what);
  [[nodiscard]] long long number(const std::string& query);

  const Options& options_;
  const History& history_;
  test::ServerDatabase database_;
  test::Connection looks_;  // of the line watcher's thread
  const bool all_ways_;
  const std::vector<std::string> newest_;
  std::string application_;  // the account
  std::vector<std::unique_ptr<test::Proxy>> proxies_;
  std::vector<Kind> kinds_;
};

// Short ones more often than long ones.
[[nodiscard]] milliseconds some_time(Random& random, milliseconds least, milliseconds most);
[[nodiscard]] std::vector<PlaceSeen> places_in(const std::vector<test::Row>& rows);

}  // namespace dblock::campaign
