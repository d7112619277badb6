#include "lease/store.hpp"

#include <utility>

namespace dblock::lease {

Granted granted(const LeaseRequest& request, Token token, std::uint32_t slot, BootTime sent_at) {
  const bool numbered = request.sharing.mode == Mode::slot;
  const bool one_row = slot > 0 && request.also.empty();
  return {.lease = {.key = request.key,
                    .also = request.also,
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

std::vector<LeaseRequest> members_of(const LeaseRequest& request) {
  if (!request.of_pool()) return {request};
  LeaseRequest member = request;
  member.any.clear();
  std::vector<LeaseRequest> members{member};
  for (const Key& key : request.any) {
    member.key = key;
    members.push_back(member);
  }
  return members;
}

std::vector<Key> locks_of(const LeaseRequest& request) {
  auto keys = keys_of(request.key, request.also);
  keys.insert(keys.end(), request.any.begin(), request.any.end());
  return keys;
}

Result<SeenInLine> LeaseStore::look_in_line(const LeaseRequest& request) {
  DBLOCK_TRY(auto answer, look(request));
  DBLOCK_TRY(auto places, see_line(request));
  return SeenInLine{std::move(answer), std::move(places)};
}

LeaseRef ref_to(const LeaseRequest& request) {
  return {request.key, request.owner, std::nullopt, request.also, request.sharing.mode};
}

std::vector<LeaseRef> refs_to(const LeaseRequest& request) {
  std::vector<LeaseRef> refs;
  for (const auto& member : members_of(request)) refs.push_back(ref_to(member));
  return refs;
}

}  // namespace dblock::lease
