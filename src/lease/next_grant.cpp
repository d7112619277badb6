#include "lease/next_grant.hpp"

#include <utility>

namespace dblock::lease {
namespace {

using namespace std::chrono_literals;

// How often a waiting request renews its promise, which lasts for k_promise; and asks for one that it has not
// got.
constexpr Nanos k_renew = 1s;
constexpr Nanos k_ask_again = 200ms;

// A pool's first waiter competes with the waiters of each member's own line, which a release wakes at once.
// After this time it has the next grant of one member promised to it.
constexpr Nanos k_pool_patience = 5s;

}  // namespace

std::optional<LeaseStore::Promise> NextGrant::ask(const LeaseRequest& request, bool newest) {
  const BootTime now = clock_.now();
  auto promise = store_.promise(request, newest);
  const bool ours = promise && promise->to == request.owner;
  due_ = now + (ours ? k_renew : k_ask_again);
  if (ours) promised_at_ = now;
  if (!promise) return std::nullopt;
  return std::move(*promise);
}

std::optional<OwnerId> NextGrant::stand_in_line() {
  if (request_.line == Line::fifo || !due()) return std::nullopt;
  const bool newest = request_.line == Line::newest;
  const bool begins = newest && !promised_at_;
  auto promise = ask(request_, begins);
  if (!promise) return std::nullopt;
  if (promise->to == request_.owner) {
    other_.reset();
    return std::nullopt;
  }
  const bool without_row = begins && promise->to.text.empty();
  const bool lives = other_ && other_->to == promise->to && promise->until != other_->until;
  if ((newest && !without_row) || lives) return std::move(promise->to);
  if (!other_ || other_->to != promise->to) other_ = std::move(promise);
  return std::nullopt;
}

void NextGrant::claim_member(const LockStatus& status) {
  if (!request_.of_pool()) return;
  if (!first_refusal_) first_refusal_ = clock_.now();
  if (clock_.now() < *first_refusal_ + k_pool_patience || !due()) return;
  const auto refused_by = Key::parse(status.key);
  if (!claimed_ && refused_by) claimed_ = *refused_by;
  if (!claimed_) return;
  LeaseRequest member = request_;
  member.key = *claimed_;
  const auto promise = ask(member, false);
  if (!promise || promise->to != request_.owner) claimed_.reset();
}

bool NextGrant::overtaken(const LockStatus& lock) const {
  return request_.line == Line::newest && promised_at_ && lock.slot == 0 &&
         lock.promised_to != request_.owner.text && clock_.now() < *promised_at_ + k_promise;
}

OwnerId newer_request(const LockStatus& lock) {
  return {lock.promised_to.empty() ? lock.owner : lock.promised_to};
}

}  // namespace dblock::lease
