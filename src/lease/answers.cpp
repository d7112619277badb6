#include "lease/answers.hpp"

#include <utility>

namespace dblock::lease {

Granted granted(const LeaseRequest& request, Token token, std::uint32_t slot, BootTime sent_at) {
  const bool numbered = request.sharing.mode == Mode::slot;
  const bool one_row = slot > 0 && request.further_keys.empty();
  return {.lease = {.key = request.key,
                    .further_keys = request.further_keys,
                    .owner = request.owner,
                    .token = token,
                    .terms = request.terms,
                    .sent_at = sent_at,
                    .sharing = request.sharing,
                    .slot = numbered ? slot : 0,
                    .rows = one_row ? std::vector{slot} : std::vector<std::uint32_t>()}};
}

Granted found(const LeaseRequest& request, LockStatus row, BootTime sent_at) {
  Granted grant = granted(request, row.token, row.slot, sent_at);
  grant.lease.needs_renewal_proof = true;
  grant.row = std::move(row);
  return grant;
}

}  // namespace dblock::lease
