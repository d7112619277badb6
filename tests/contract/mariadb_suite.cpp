// The contract with dblock on a server.
#include "contract/mariadb_store.hpp"

namespace dblock::contract {

std::unique_ptr<StoreUnderTest> make_store_under_test() {
  return std::make_unique<MariadbUnderTest>();
}

}  // namespace dblock::contract
