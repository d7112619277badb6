#include "store/mariadb/host_order.hpp"

#include <algorithm>

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// The client library counts its timeouts in seconds.
constexpr auto k_silence = 1s;

}  // namespace

std::vector<std::size_t> HostOrder::order() const {
  std::vector<std::size_t> hosts;
  for (std::size_t i = 0; i < seen_.size(); ++i) hosts.push_back((last_ + i) % seen_.size());
  std::ranges::stable_sort(hosts, {}, [this](std::size_t host) { return seen_[host]; });
  return hosts;
}

void HostOrder::worked(std::size_t host) {
  seen_[host] = Seen::nothing;
  last_ = host;
}

void HostOrder::failed(std::size_t host, std::chrono::steady_clock::duration took) {
  seen_[host] = took < k_silence ? Seen::answering : Seen::silent;
}

}  // namespace dblock::store::mariadb
