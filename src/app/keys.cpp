// `dblock __keys`: the keys that a shell completes. Takes no lock, changes no row.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "base/text.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

constexpr std::size_t k_most_keys = 100;
constexpr timeval k_patience{0, 300'000};

// Ends the whole process after k_patience: nothing less bounds the wait for a name server and a database.
void end_silently_in_time() {
  ::signal(SIGALRM, [](int) { ::_exit(0); });
  const itimerval once{{0, 0}, k_patience};
  ::setitimer(ITIMER_REAL, &once, nullptr);
}

}  // namespace

Result<std::vector<std::string>> known_keys(const KeysRequest& request) {
  end_silently_in_time();
  DBLOCK_TRY(const store::Settings settings, settings_from(request.database));
  SystemClock clock;
  const auto store = store::open_store(settings, {.reads_only = true}, clock);
  const lease::Selection all{
      .keys = {}, .prefix = request.prefix, .held_only = false, .at_most = k_most_keys, .keys_only = true};
  DBLOCK_TRY(const lease::Listing listing, store->list(all));
  std::vector<std::string> keys;
  for (const auto& lock : listing.locks) {
    // A user should not choose a key that the terminal would not show as it is.
    if (escape_message(lock.key) != lock.key) continue;
    if (keys.empty() || keys.back() != lock.key) keys.push_back(lock.key);
  }
  return keys;
}

}  // namespace dblock::app
