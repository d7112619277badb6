// The order in which dblock tries the hosts of the settings. A holder that loses its session has little of
// the lease's time left, so the host that last worked comes first, and hosts that do not answer come last.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace dblock::store::mariadb {

class HostOrder {
 public:
  explicit HostOrder(std::size_t hosts) : seen_(hosts, Seen::nothing) {}

  // All hosts' indices, in the order to try them.
  [[nodiscard]] std::vector<std::size_t> order() const;

  void worked(std::size_t host);
  // `took`: how long the failure took. A host that answers fails soon, a silent one only after a timeout.
  void failed(std::size_t host, std::chrono::steady_clock::duration took);

 private:
  enum class Seen { nothing, answering, silent };  // no failure; refused with an answer; did not answer
  std::vector<Seen> seen_;
  std::size_t last_ = 0;  // the host that last worked
};

}  // namespace dblock::store::mariadb
