// Nesting: a run inside another run's lease adds one to the count of the outer lease, and takes it off again.
#include "store/rules/nesting.hpp"

#include <algorithm>
#include <utility>

#include "lease/owner_id.hpp"
#include "store/parameters.hpp"
#include "store/rules/own_row.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Key;
using lease::Lease;
using lease::LeaseRequest;
using lease::LockStatus;

// Takes one off the count, but never the holder's own. False when `ref` does not hold the lock.
Result<bool> count_out(LockTable& table, const lease::LeaseRef& ref) {
  return table.changes_one(Verb::unnest, ref_parameters(ref, lease::Actor::holder));
}

// Adds one to the count of the lease, and renews it for `ttl`. RETURNS: the token; nullopt where `ref` does
// not hold the lock, or not as `sharing` asks (an exclusive `sharing` is for an exclusive lease).
Result<std::optional<lease::Token>> count_in(LockTable& table, const lease::LeaseRef& ref,
                                             const lease::Sharing& sharing, Micros ttl) {
  const auto parameters = ref_parameters(ref, lease::Actor::holder) + sharing_parameters(sharing) +
                          Parameters{{"ttl", micros_or_null(ttl)}};
  const auto count_down = [&] { return count_out(table, ref); };
  DBLOCK_TRY(const auto done, table.run_reporting(Verb::nest, parameters, count_down));
  return token_of(done);
}

// Any request may nest in an exclusive lease; in a shared or slot lease only a request that asks for the
// same. Sets `sharing` to how the outer lease is held.
Result<std::optional<lease::Token>> nest_one(LockTable& table, const Key& key, const lease::OwnerId& outer,
                                             const LeaseRequest& request, lease::Sharing& sharing) {
  lease::LeaseRef ref{key, outer, std::nullopt, {}, lease::Mode::exclusive};
  sharing = {};
  DBLOCK_TRY(auto token, count_in(table, ref, sharing, request.terms.ttl));
  if (token || request.sharing.mode == lease::Mode::exclusive) return token;
  sharing = request.sharing;
  ref.mode = sharing.mode;
  return count_in(table, ref, sharing, request.terms.ttl);
}

Result<std::optional<lease::Lease>> nest_all(LockTable& table, const LeaseRequest& request,
                                             BootTime sent_at) {
  const lease::OwnerId outer = lease::outermost(*request.outer);
  std::optional<lease::Token> token;
  lease::Sharing sharing;
  bool absent = false;
  const auto body = [&]() -> Result<void> {
    for (const Key& key : keys_of(request.key, request.further_keys)) {
      DBLOCK_TRY(token, nest_one(table, key, outer, request, sharing));
      absent = !token;
      if (absent) return fail(Errc::internal, "");  // rolls back the keys that were counted
    }
    return {};
  };
  const auto done = request.further_keys.empty() ? body() : table.in_transaction(body);
  if (absent) return std::nullopt;
  if (!done) return std::unexpected(done.error());
  auto lease = lease::granted(request, *token, 0, sent_at).lease;
  lease.owner = lease::nested_owner_id(outer);
  lease.sharing = sharing;
  return lease;
}

// Finds the rows of the outer lease, so that the nested run renews by primary key, and knows its slot. Where
// one is not found, every renewal searches all rows of its key.
void fill_in_rows(LockTable& table, Lease& lease) {
  if (lease.sharing.mode == lease::Mode::exclusive) return;
  // The job cannot start before this ends.
  const Call call(*table.database, {"look at", lease.key}, Database::Patience::renewal);
  const lease::OwnerId outer = lease::outermost(lease.owner);
  const auto is_ours = [&](const LockStatus& holder) {
    return holder.owner == outer.text && holder.token == lease.token;
  };
  const auto locks = read_rows(table, keys_of(lease.key, lease.further_keys), false);
  if (!locks) return;
  for (const auto& seen : *locks) {
    if (!seen) return lease.rows.clear();
    const auto own = std::ranges::find_if(seen->holders, is_ours);
    if (own == seen->holders.end()) return lease.rows.clear();
    lease.rows.push_back(own->slot);
  }
  if (lease.sharing.mode == lease::Mode::slot) lease.slot = lease.rows.front();
}

}  // namespace

Result<std::optional<Lease>> TableLeaseStore::nest(const lease::LeaseRequest& request) {
  auto nested = [&]() -> Result<std::optional<Lease>> {
    const Call call(*table_.database, {"acquire", request.key});
    DBLOCK_CHECK(call.open());
    DBLOCK_CHECK(table_.database->safe_to_grant());
    return nest_all(table_, request, clock_.now());
  }();
  if (nested && *nested) {
    DBLOCK_CHECK(keep_if_safe(**nested));
    fill_in_rows(table_, **nested);
  }
  return nested;
}

Result<lease::ReleaseOutcome> release_nested(LockTable& table, const lease::LeaseRef& ref) {
  std::optional<lease::LeaseRef> not_counted;
  const auto all_out = [&]() -> Result<void> {
    not_counted.reset();
    for (const Key& key : keys_of(ref.key, ref.further_keys)) {
      const lease::LeaseRef outer = outer_part(ref, key);
      DBLOCK_TRY(const bool counted, count_out(table, outer));
      if (!counted && !not_counted) not_counted = outer;
    }
    return {};
  };
  DBLOCK_CHECK(ref.further_keys.empty() ? all_out() : table.in_transaction(all_out));
  if (not_counted) return why_not(table, *not_counted, lease::Actor::holder, false);
  return lease::Released{};
}

}  // namespace dblock::store
