#include "store/mariadb/session/host_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

// A failure after this time was a timeout: the client library's timeouts are whole seconds.
constexpr auto k_silence = 1s;

}  // namespace

std::vector<std::size_t> HostOrder::order() const {
  const std::size_t count = seen_.size();
  std::vector<std::size_t> hosts(count);
  std::iota(hosts.begin(), hosts.end(), std::size_t{0});
  std::ranges::sort(hosts, {},
                    [&](std::size_t host) { return std::pair(seen_[host], (host + count - last_) % count); });
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
