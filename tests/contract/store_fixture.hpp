// What the contract's cases are made of: a store under test, requests, and verbs that fail the case on an
// error.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "contract/lease_store_suite.hpp"
#include "support/catch.hpp"

// Tagged [all-of-dblock] where it asks for what an application cannot have, or is told otherwise: the store
// "procedures" does not run it.
#define STORE_CASE(sentence, ...) TEST_CASE(DBLOCK_STORE_NAME ": " sentence __VA_OPT__(, ) __VA_ARGS__)

namespace dblock::contract {

using namespace std::chrono_literals;
using namespace lease;

inline Key key(std::string_view bytes) {
  return *Key::parse(bytes);
}

inline LeaseRequest asks(std::string_view name, std::string owner, Kind kind = Kind::run, Micros ttl = 60s,
                         Micros margin = 10s) {
  Terms terms{ttl, margin, std::nullopt};
  if (kind == Kind::run) terms.heartbeat = ttl / 6;
  return {key(name), {}, {std::move(owner)}, kind, terms, {"host", 4711, "user", "job", "note"}};
}

inline LeaseRequest reads(std::string_view name, std::string owner) {
  auto request = asks(name, std::move(owner));
  request.sharing = {Mode::shared, 1};
  return request;
}

inline LeaseRequest takes_slot(std::string_view name, std::string owner, std::uint32_t slots) {
  auto request = asks(name, std::move(owner));
  request.sharing = {Mode::slot, slots};
  return request;
}

// In the order that everybody keeps.
inline LeaseRequest asks_for_all(std::vector<std::string> names, std::string owner) {
  std::ranges::sort(names);
  auto request = asks(names.front(), std::move(owner));
  for (std::size_t i = 1; i < names.size(); ++i) request.further_keys.push_back(key(names[i]));
  return request;
}

inline Answer acquire(LockBook& store, const LeaseRequest& request) {
  auto outcome = store.try_acquire(request);
  if (!outcome) FAIL(outcome.error().message);
  return std::move(*outcome);
}

inline Lease grant(LockBook& store, const LeaseRequest& request) {
  auto outcome = acquire(store, request);
  REQUIRE(std::holds_alternative<Granted>(outcome));
  return std::get<Granted>(outcome).lease;
}

inline Held conflict(LockBook& store, const LeaseRequest& request) {
  auto outcome = acquire(store, request);
  REQUIRE(std::holds_alternative<Held>(outcome));
  return std::get<Held>(outcome);
}

struct Fixture {
  std::unique_ptr<StoreUnderTest> under_test = make_store_under_test();
  std::unique_ptr<LockBook> store = under_test->open();

  Answer acquire(const LeaseRequest& request) { return contract::acquire(*store, request); }
  Lease grant(const LeaseRequest& request) { return contract::grant(*store, request); }
  Held conflict(const LeaseRequest& request) { return contract::conflict(*store, request); }
  LockStatus row(std::string_view name) {
    auto seen = row_of(*store, key(name));
    if (!seen) FAIL(seen.error().message);
    REQUIRE(seen->has_value());
    return **seen;
  }
  RenewOutcome renew(const LeaseRef& ref, Actor actor = Actor::holder, std::optional<Micros> ttl = {},
                     Micros cooldown = Micros{0}, const std::optional<lease::JobNews>& news = {}) {
    auto outcome = store->renew(ref, actor, ttl, cooldown, news);
    if (!outcome) FAIL(outcome.error().message);
    return std::move(*outcome);
  }
  ReleaseOutcome release(const LeaseRef& ref, Actor actor = Actor::holder, RunEnd end = {}) {
    auto outcome = store->release(ref, actor, end);
    if (!outcome) FAIL(outcome.error().message);
    return std::move(*outcome);
  }
  ForceOutcome revoke(std::string_view name, Token token) {
    auto outcome = store->revoke(key(name), token, "op@desk");
    if (!outcome) FAIL(outcome.error().message);
    return std::move(*outcome);
  }
  ForceOutcome free_now(std::string_view name, Token token) {
    auto outcome = store->free_now(key(name), token);
    if (!outcome) FAIL(outcome.error().message);
    return std::move(*outcome);
  }
  std::vector<std::string> listed(const Selection& selection) {
    auto listing = store->list(selection);
    if (!listing) FAIL(listing.error().message);
    CHECK(listing->server_time.since_epoch > Micros{0});
    std::vector<std::string> keys;
    for (const auto& lock : listing->locks) keys.push_back(lock.key);
    return keys;
  }
  std::vector<LockStatus> rows(const Selection& selection = {}) {
    auto listing = store->list(selection);
    if (!listing) FAIL(listing.error().message);
    return std::move(listing->locks);
  }
  ReapReport reap(bool dry_run, Micros forget_after = 24h) {
    auto report = store->reap({dry_run, forget_after});
    if (!report) FAIL(report.error().message);
    return std::move(*report);
  }
};

using Owners = std::vector<std::string>;
inline Owners owners(Fixture& t, const Selection& selection = {}) {
  Owners found;
  for (const auto& row : t.rows(selection)) found.push_back(row.owner);
  return found;
}

inline LeaseRef ref(const Lease& lease) {
  return {lease.key, lease.owner, lease.token};
}

template <typename Outcome>
NotOursWhy why(const Outcome& outcome) {
  REQUIRE(std::holds_alternative<NotOurs>(outcome));
  return std::get<NotOurs>(outcome).why;
}

inline ForceRefused::Why refused(const ForceOutcome& outcome) {
  REQUIRE(std::holds_alternative<ForceRefused>(outcome));
  return std::get<ForceRefused>(outcome).why;
}

inline bool renewed(const RenewOutcome& outcome) {
  return std::holds_alternative<Renewed>(outcome);
}
inline bool released(const ReleaseOutcome& outcome) {
  return std::holds_alternative<Released>(outcome);
}

}  // namespace dblock::contract
