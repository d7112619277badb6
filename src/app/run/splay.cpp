#include "app/run/splay.hpp"

#include <cstdint>
#include <random>

#include "base/duration.hpp"
#include "base/fnv1a.hpp"
#include "base/log.hpp"

namespace dblock::app {

// Names that differ in their last letter have hashes that differ little; the generator spreads them.
Micros splay_of(const std::string& host, const std::string& key, Micros longest) {
  if (longest == Micros{0}) return longest;  // no run pays for what it does not ask for
  const std::uint64_t hash = fnv1a(host + '\n' + key);
  std::seed_seq seed{static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32U)};
  std::mt19937_64 random(seed);
  return Micros(std::uniform_int_distribution<Micros::rep>(0, longest.count())(random));
}

process::Stop wait_for_splay(process::Supervisor& supervisor, Micros splay, const std::string& locks) {
  if (splay == Micros{0}) return {};
  log::info("waiting " + format_age(splay) + " before the first try for " + locks + " (--splay)");
  const WakeEvent never;
  return supervisor.await(never, BootClock::now() + splay);
}

}  // namespace dblock::app
