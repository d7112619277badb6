// `dblock renew`: extends a script's lease.
#include <utility>

#include "app/silence_watch.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "app/words/describe.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr int k_tries = 3;  // a renewal may be repeated without harm when its reply was lost

Ending refused(const lease::Key& key, const lease::NotOurs& why) {
  const bool not_a_scripts = why.why == lease::NotOursWhy::other_kind;
  // describe_not_ours() proposes --force, but `renew` has no --force.
  const std::string words = not_a_scripts
                                ? "is held by " + kind_of_holder(why) + ", which renews its lease itself"
                                : describe_not_ours(why);
  return Ending{.how = not_a_scripts ? Ending::How::refused : Ending::How::lost,
                .message = "lock " + quoted(key) + " " + words + "; nothing was renewed"};
}

}  // namespace

Result<std::variant<RenewedLease, Ending>> renew(const RenewRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {}, clock);
  const SilenceWatch watch(settings);
  const lease::LeaseRef ref{request.key, request.owner, std::nullopt};
  auto outcome = store->renew(ref, lease::Actor::script, request.ttl);
  for (int i = 1; i < k_tries && !outcome && outcome.error().code == Errc::indeterminate; ++i)
    outcome = store->renew(ref, lease::Actor::script, request.ttl);
  if (!outcome) return std::unexpected(outcome.error());
  if (const auto* why = std::get_if<lease::NotOurs>(&*outcome)) return refused(request.key, *why);
  const auto& renewed = std::get<lease::Renewed>(*outcome);
  return RenewedLease{request.key, request.owner, renewed.ttl, renewed.expires_at};
}

}  // namespace dblock::app
