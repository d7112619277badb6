#include "app/listing_thread.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "app/inspect_report.hpp"
#include "store/open.hpp"

namespace dblock::app {
namespace {

using namespace std::chrono_literals;

constexpr Nanos k_broken_within = 1s;  // how long a call may take to end after interrupt()

}  // namespace

// Shared with the worker's task, which outlives the ListingThread when its call does not end in time.
struct ListingThread::Question {
  Question(const InspectRequest& asked, store::Settings where)
      : request(asked),
        settings(std::move(where)),
        store(store::open_store(settings, {.reads_only = !request.from_primary}, clock)) {}

  void ask() {
    auto listing = store->list(selection_of(request));
    const std::lock_guard lock(mutex);
    answer = std::move(listing);
  }

  const InspectRequest request;
  const store::Settings settings;
  SystemClock clock{};
  const std::unique_ptr<lease::LockBook> store;
  std::mutex mutex{};  // guards `answer`
  std::optional<Result<lease::Listing>> answer{};
};

ListingThread::ListingThread(const InspectRequest& request, store::Settings settings)
    : question_(std::make_shared<Question>(request, std::move(settings))) {}

void ListingThread::ask() {
  worker_.post([question = question_] { question->ask(); });
}

Result<InspectReport> ListingThread::answer() {
  const std::lock_guard lock(question_->mutex);
  DBLOCK_TRY(lease::Listing listing, std::exchange(question_->answer, std::nullopt).value());
  return report_on(std::move(listing), question_->request, question_->settings);
}

Ending ListingThread::end(Ending ending) {
  if (answered().raised()) return ending;
  question_->store->interrupt();
  if (worker_.wait_idle(k_broken_within)) return ending;
  worker_.abandon();
  ending.thread_left_behind = true;
  return ending;
}

}  // namespace dblock::app
