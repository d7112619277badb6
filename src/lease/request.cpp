#include "lease/request.hpp"

namespace dblock::lease {

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
  auto keys = keys_of(request.key, request.further_keys);
  keys.insert(keys.end(), request.any.begin(), request.any.end());
  return keys;
}

LeaseRef ref_to(const LeaseRequest& request) {
  return {request.key, request.owner, std::nullopt, request.further_keys, request.sharing.mode};
}

std::vector<LeaseRef> refs_to(const LeaseRequest& request) {
  std::vector<LeaseRef> refs;
  for (const auto& member : members_of(request)) refs.push_back(ref_to(member));
  return refs;
}

}  // namespace dblock::lease
