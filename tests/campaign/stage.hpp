// Where a campaign plays: a store of locks, and what can befall it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "campaign/command.hpp"
#include "campaign/history.hpp"

namespace dblock::campaign {

struct Options {
  unsigned seed = 1;
  milliseconds duration{30'000};
  int clients = 16;
  int keys = 8;
  milliseconds ttl{3000};
  milliseconds margin{2000};
  milliseconds hold{2000};
  int sharing = 35;              // percent of what is no application's that readers and holders of slots do
  std::string store = "server";  // or sqlite, galera, group, multi_primary
  std::string clock = "within";  // none, within, beyond the margin
  std::vector<std::string> faults{};  // their names; empty: all there are
  std::string directory;
};

[[nodiscard]] bool wanted(const Options& options, const std::string& fault);

// How far apart two readings of the store's clock can be, beside the time between them.
[[nodiscard]] milliseconds largest_step(const Options& options);

// A fault that is going on. `over` ends it.
struct Trouble {
  std::string what;
  milliseconds length;
  std::function<void()> over;
};

// A place in the line of a lock, in the store's table, of a request that wants the lock alone.
struct PlaceSeen {
  std::string key, owner;
  std::chrono::microseconds counts_for;  // from then on
};

class Stage {
 public:
  virtual ~Stage() = default;
  [[nodiscard]] virtual std::string url(int group) const = 0;
  // … for applications, which call dblock's procedures; "" where there are none.
  [[nodiscard]] virtual std::string application_url(int /*group*/) const { return ""; }
  [[nodiscard]] virtual int groups() const = 0;
  // Some trouble with the store or the way to it; none when what was drawn goes on already or is not wanted.
  [[nodiscard]] virtual std::optional<Trouble> trouble(Random& random) = 0;
  // After the last trouble: what no trouble's end has put right.
  virtual void heal() {}
  // Of a key's row: its token, and how many holders it has.
  [[nodiscard]] virtual long long token(const std::string& key) = 0;
  [[nodiscard]] virtual long long holders(const std::string& key) = 0;
  // The lines of all keys. On a thread of its own: it takes as long as the store does. Throws if that is
  // away.
  [[nodiscard]] virtual std::vector<PlaceSeen> places() = 0;
};

[[nodiscard]] std::unique_ptr<Stage> make_stage(const Options& options, const History& history);

}  // namespace dblock::campaign
