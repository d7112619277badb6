// In which order the hosts of the settings are asked. Who loses a session has little of the lease's time
// left: the host that worked comes first, and one that swallows packets last.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace dblock::store::mariadb {

class HostOrder {
 public:
  explicit HostOrder(std::size_t hosts) : seen_(hosts, Seen::nothing) {}

  // For one pass over all of them.
  [[nodiscard]] std::vector<std::size_t> order() const;

  void worked(std::size_t host);
  // `took`: until it was known. An answer comes soon, silence takes until a timeout.
  void failed(std::size_t host, std::chrono::steady_clock::duration took);

 private:
  enum class Seen { nothing, answering, silent };  // what is wrong with it
  std::vector<Seen> seen_;
  std::size_t last_ = 0;  // worked
};

}  // namespace dblock::store::mariadb
