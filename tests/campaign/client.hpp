// One of a campaign's clients: does what users do with locks, in an order drawn from its seed, and writes it
// down.
#pragma once

#include <atomic>
#include <map>

#include "campaign/command.hpp"
#include "campaign/history.hpp"
#include "campaign/stage.hpp"
#include "campaign/witness.hpp"

namespace dblock::campaign {

// A key, and how it is held.
struct KeyUse {
  std::string key;
  enum class As { exclusive, shared_or_exclusive, slots } as = As::exclusive;
};
inline constexpr int k_slots = 2;
[[nodiscard]] std::vector<KeyUse> keys_of(const Options& options);

// What all clients share.
struct World {
  const Options& options;
  const History& history;
  Targets targets;
  std::vector<KeyUse> keys;
  std::string mark;  // in the environment of every process of the campaign
  std::atomic<int> next_op = 1;
  std::atomic<bool> over = false;

  [[nodiscard]] bool shares() const { return keys.back().as != KeyUse::As::exclusive; }
};

class Client {
 public:
  // `application_url`: for its applications, "" where there are none.
  Client(World& world, int number, int group, const std::string& url, std::string application_url);
  void play();  // until the world says that it is over
  [[nodiscard]] const std::map<std::string, int>& done() const { return done_; }

 private:
  struct ScriptLease {
    int op = 0;
    std::string key, owner;
    long long token = 0;
  };

  void act();
  // `locks`: the options that name them, and how they are to be had.
  void run(const std::string& kind, const Words& locks, const std::string& mode, milliseconds wait);
  void application();
  void run_in_a_line();
  [[nodiscard]] const KeyUse* own_key() const;  // the one that this client may pause, or none
  void pause(const std::string& key);
  void run_among_others();
  void script();
  void work_under(const ScriptLease& lease, Nanos deadline);
  void use(const ScriptLease& lease, const std::string& verb);
  void use_old_lease();
  void revoke();
  void look(const std::string& kind, const Words& words);

  // `wants`: the key, mode and slots of a request for one lock.
  [[nodiscard]] int invoke(const std::string& what, Event wants = {});
  [[nodiscard]] std::optional<Outcome> command(const Target& target, const Words& words, milliseconds limit);
  void await_death(int op);
  void tell_last_sign(int op, const LifeFile& life) const;
  void finished(int op, const std::optional<Outcome>& outcome, bool alive);
  [[nodiscard]] const KeyUse& some_key(bool exclusive);
  [[nodiscard]] std::string some_exclusive_key() { return some_key(true).key; }
  [[nodiscard]] std::string some_key_for_an_application();
  [[nodiscard]] Words some_exclusive_keys(const std::string& option);
  [[nodiscard]] Words terms() const;
  [[nodiscard]] bool chance(unsigned percent) { return random_() % 100 < percent; }
  [[nodiscard]] milliseconds up_to(milliseconds most) {
    return milliseconds(static_cast<long>(random_() % static_cast<unsigned long>(most.count() + 1)));
  }

  World& world_;
  const int number_, group_;
  Random random_;
  const Words environment_;
  const std::string application_url_;
  std::vector<ScriptLease> old_leases_;
  std::map<std::string, int> done_;
};

}  // namespace dblock::campaign
