#include "lease/store.hpp"

#include <utility>

namespace dblock::lease {

Result<SeenInLine> LeaseStore::look_in_line(const LeaseRequest& request) {
  DBLOCK_TRY(auto answer, look(request));
  DBLOCK_TRY(auto places, see_line(request));
  return SeenInLine{std::move(answer), std::move(places)};
}

}  // namespace dblock::lease
