// What goes wrong during a campaign, in an order drawn from its seed.
#pragma once

#include <map>
#include <vector>

#include "campaign/client.hpp"
#include "campaign/stage.hpp"

namespace dblock::campaign {

class Faults {
 public:
  Faults(World& world, Stage& stage);
  void step();  // begins what is due, ends what is over
  void heal();  // ends everything
  [[nodiscard]] const std::map<std::string, int>& done() const { return done_; }

 private:
  void hit(Target& target);
  [[nodiscard]] bool passed_over(const Target& target, std::uint64_t draw) const;
  [[nodiscard]] bool is_at_work(const Target& target) const;           // its job has begun
  [[nodiscard]] milliseconds some_freeze(std::uint64_t length) const;  // up to three TTLs
  void hit_run(Target& target, std::uint64_t draw, std::uint64_t length);
  void kill(Target& target, const std::string& what, const std::vector<pid_t>& whom);
  void stop(Target& target, const std::string& what, pid_t whom, milliseconds length);
  void tell(const std::string& what, int op);
  void begin(Trouble trouble);
  void dark(int op, Nanos from, Nanos until) const;

  struct Under {
    Nanos until;
    Trouble trouble;
  };
  World& world_;
  Stage& stage_;
  Random random_;
  std::vector<Under> under_way_;
  Nanos next_hit_ = 0, next_trouble_ = 0;
  std::map<std::string, int> done_;
  int orphaned_ = 0;  // jobs at work whose dblock was killed for certain
};

}  // namespace dblock::campaign
