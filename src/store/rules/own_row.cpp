#include "store/rules/own_row.hpp"

#include <utility>

#include "lease/owner_id.hpp"
#include "store/rules/sharing.hpp"

namespace dblock::store {

lease::LeaseRef outer_part(const lease::LeaseRef& ref, const lease::Key& key) {
  lease::LeaseRef part = lease::part_of(ref, key);
  part.owner = lease::outermost(ref.owner);
  return part;
}

lease::LeaseRef likeliest(lease::LeaseRef ref) {
  if (!ref.mode && ref.rows.empty()) ref.rows = {0};
  return ref;
}

std::unexpected<Error> contradiction(const Database& database) {
  return database.attempt().refuse(Errc::unreachable,
                                   "the server's answers contradict each other; try again");
}

bool passed(const std::optional<lease::ServerTime>& limit, const lease::LockStatus& status) {
  return !limit || *limit <= status.server_time;
}

Result<std::optional<lease::LockStatus>> row_where(
    LockTable& table, const lease::Key& key, const std::function<bool(const lease::LockStatus&)>& wanted) {
  DBLOCK_CHECK(table.database->ensure_open());
  DBLOCK_TRY(auto own_row, read_own_row(table, key));
  if (!own_row || wanted(*own_row) || own_row->sharing.mode == lease::Mode::exclusive) return own_row;
  DBLOCK_TRY(auto locks, read_rows(table, {key}, false));
  auto& seen = locks.front();
  if (!seen) return std::nullopt;
  for (auto& holder : seen->holders) {
    if (wanted(holder)) return std::move(holder);
  }
  for (auto& holder : seen->holders) {
    if (keeps_the_lock(holder)) return std::move(holder);
  }
  return with_past_runs(*seen);
}

Result<std::optional<lease::LockStatus>> own_row(LockTable& table, const lease::LeaseRef& ref) {
  return row_where(table, ref.key, [&ref](const lease::LockStatus& row) {
    if (row.owner == ref.owner.text) return !ref.token || row.token == *ref.token;
    return row.slot > 0 && ref.token && row.token == *ref.token;
  });
}

Result<std::optional<lease::LeaseRef>> found_elsewhere(LockTable& table, lease::LeaseRef ref) {
  if (ref.mode || !ref.rows.empty()) return std::nullopt;
  DBLOCK_TRY(const auto seen, own_row(table, ref));
  if (!seen || seen->slot == 0) return std::nullopt;
  ref.rows = {seen->slot};
  return ref;
}

Result<lease::NotOurs> nested_for_script(LockTable& table, const lease::OwnerId& asked,
                                         const lease::LeaseRef& outer) {
  DBLOCK_TRY(auto seen, own_row(table, outer));
  if (!seen) return lease::NotOurs{lease::NotOursWhy::absent, std::nullopt};
  if (seen->owner.empty()) return lease::NotOurs{lease::NotOursWhy::free, std::move(seen)};
  const bool of_run = seen->owner == outer.owner.text && seen->kind == lease::Kind::run;
  const bool of_application = seen->owner == asked.text && seen->kind == lease::Kind::sql;
  return lease::NotOurs{
      of_run || of_application ? lease::NotOursWhy::other_kind : lease::NotOursWhy::other_holder,
      std::move(seen)};
}

Result<lease::NotOurs> why_not(LockTable& table, const lease::LeaseRef& ref, lease::Actor actor,
                               bool renewing) {
  DBLOCK_TRY(auto why, reason_why_not(table, ref, actor, renewing));
  if (!why) return contradiction(*table.database);
  return std::move(*why);
}

Result<std::optional<lease::NotOurs>> reason_why_not(LockTable& table, const lease::LeaseRef& ref,
                                                     lease::Actor actor, bool renewing) {
  DBLOCK_TRY(auto seen, own_row(table, ref));
  if (!seen) return lease::NotOurs{lease::NotOursWhy::absent, std::nullopt};
  const auto because = [&seen](lease::NotOursWhy why) { return lease::NotOurs{why, std::move(seen)}; };
  if (seen->owner.empty()) return because(lease::NotOursWhy::free);
  if (seen->owner != ref.owner.text || (ref.token && seen->token != *ref.token))
    return because(lease::NotOursWhy::other_holder);
  if (actor == lease::Actor::script && seen->kind != lease::Kind::acquire)
    return because(lease::NotOursWhy::other_kind);
  if (renewing && seen->revoked_at) return because(lease::NotOursWhy::revoked);
  const bool over = passed(seen->expires_at, *seen);
  if ((renewing || actor == lease::Actor::script) && over) return because(lease::NotOursWhy::expired);
  if (!renewing && actor == lease::Actor::holder && seen->count > 1 && !over)
    return because(lease::NotOursWhy::nested);
  return std::nullopt;
}

}  // namespace dblock::store
