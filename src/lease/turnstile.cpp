#include "lease/turnstile.hpp"

namespace dblock::lease {

void TurnstilePosition::approach(const Key& key, const Holder& who) {
  if (turnstile_ != nullptr && !taken_) turnstile_->approach(key, who);
}

void TurnstilePosition::take(const Key& key) {
  if (turnstile_ == nullptr) return;
  if (taken_ && !(leads() && turnstile_->lost_turn())) return;
  taken_ = true;
  const Turn turn = turnstile_->enter(key);
  if (waits_) set(turn);
}

void TurnstilePosition::give_up() {
  if (turnstile_ != nullptr && taken_) turnstile_->leave();
  taken_ = false;
  standing_ = Standing::outside;
  free_since_.reset();
}

void TurnstilePosition::set(Turn turn) {
  if (turn == Turn::ours) standing_ = Standing::leading;
  if (turn == Turn::not_yet) standing_ = Standing::behind;
  if (turn == Turn::none) standing_ = Standing::outside;
}

void TurnstilePosition::saw_free(std::optional<Token> last_grant) {
  // Each grant has a token of its own. So two short gaps between three holders are not taken for one long
  // gap.
  const bool nobody_took_it = free_since_ && free_since_->last_grant == last_grant;
  free_since_ = FreeLock{last_grant};
  // We stay at the turnstile all the same: waiters behind us still wake when we leave it.
  if (nobody_took_it) standing_ = Standing::outside;
}

bool TurnstilePosition::await(BootTime until, const WakeEvent& cancel) {
  const Turn turn = turnstile_->await(until, cancel);
  set(turn);
  return turn == Turn::cancelled;
}

}  // namespace dblock::lease
