#include "lease/store.hpp"

namespace dblock::lease {

Lease granted(const AcquireRequest& request, Token token, std::uint32_t slot, BootTime sent_at,
              bool needs_renewal_proof) {
  const bool numbered = request.sharing.mode == Mode::slot;
  const bool one_row = slot > 0 && request.also.empty();
  return {.key = request.key,
          .also = request.also,
          .owner = request.owner,
          .token = token,
          .terms = request.terms,
          .sent_at = sent_at,
          .needs_renewal_proof = needs_renewal_proof,
          .sharing = request.sharing,
          .slot = numbered ? slot : 0,
          .rows = one_row ? std::vector{slot} : std::vector<std::uint32_t>()};
}

LeaseRef ref_to(const AcquireRequest& request) {
  return {request.key, request.owner, std::nullopt, request.also, request.sharing.mode};
}

}  // namespace dblock::lease
