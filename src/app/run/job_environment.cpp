#include "app/run/job_environment.hpp"

#include <cstdlib>
#include <map>

#include "lease/held.hpp"
#include "lease/owner_id.hpp"

namespace dblock::app {
namespace {

template <typename TextOf>
std::string per_key(const lease::Key& key, const std::vector<lease::Key>& further_keys,
                    const TextOf& text_of) {
  std::string text = text_of(key);
  for (const auto& other : further_keys) text += "\n" + text_of(other);
  return text;
}

}  // namespace

std::string key_lines(const lease::Key& key, const std::vector<lease::Key>& further_keys) {
  return per_key(key, further_keys, [](const lease::Key& each) { return each.bytes(); });
}

std::vector<std::string> lock_environment(const lease::Lease& lease) {
  const auto lines = [&lease](const auto& text_of) {
    return per_key(lease.key, lease.further_keys, text_of);
  };
  std::vector<std::string> environment{
      "DBLOCK_KEY=" + key_lines(lease.key, lease.further_keys),
      "DBLOCK_OWNER=" + lines([&lease](const lease::Key&) { return lease.owner.text; }),
      "DBLOCK_TOKEN=" + lines([&lease](const lease::Key&) { return std::to_string(lease.token.value); })};
  // Overrides an outer run's slot, which is not this run's.
  if (lease.slot > 0 || std::getenv("DBLOCK_SLOT") != nullptr)
    environment.push_back("DBLOCK_SLOT=" + (lease.slot > 0 ? std::to_string(lease.slot) : std::string()));
  return environment;
}

std::vector<std::string> job_environment(const lease::Lease& lease, const std::string& held,
                                         const std::string& store) {
  const std::string own = per_key(lease.key, lease.further_keys, [&](const lease::Key& key) {
    return lease::to_line({key, lease.owner, store});
  });
  std::vector<std::string> environment = lock_environment(lease);
  environment.push_back("DBLOCK_HELD=" + (held.empty() ? own : held + "\n" + own));
  return environment;
}

std::optional<lease::OwnerId> outer_of(const RunRequest& request, const std::string& store) {
  if (!request.reentrant || request.held.empty() || !request.any.empty()) return std::nullopt;
  std::map<std::string, lease::OwnerId> held;  // for each key the last line, which is the innermost run's
  for (const auto& lock : lease::parse_held(request.held)) {
    if (lock.store == store) held[lock.key.bytes()] = lease::outermost(lock.owner);
  }
  const auto first = held.find(request.key.bytes());
  if (first == held.end()) return std::nullopt;
  for (const auto& key : request.further_keys) {
    const auto other = held.find(key.bytes());
    if (other == held.end() || other->second != first->second) return std::nullopt;
  }
  return first->second;
}

}  // namespace dblock::app
