// `dblock wait`: repeats a judgement of `inspect` until it is good. Takes no lock, changes no row.
#include "app/await_listing.hpp"
#include "app/store_access.hpp"
#include "app/use_cases.hpp"
#include "base/log.hpp"

namespace dblock::app {
namespace {

constexpr std::string_view k_limit_option = "--timeout";

// A single complaint says more than the number of complaints.
std::string reason(const InspectReport& report) {
  return report.complaints.size() == 1 ? report.complaints.front() : report.ending.message;
}

std::optional<NotYet> what_remains(const InspectReport& report) {
  if (report.ending.how == Ending::How::success) {
    if (!report.notice.empty()) log::warning(report.notice);
    return std::nullopt;
  }
  return NotYet{.ending = {.how = Ending::How::not_yet, .message = reason(report)}};
}

}  // namespace

Result<Ending> wait(const WaitRequest& request) {
  DBLOCK_TRY(const store::Settings settings, settings_from(request.inspect.database));
  const process::Signals signals;
  return await_listing({.listed = request.inspect,
                        .doing = "while waiting",
                        .limit = request.timeout,
                        .limit_option = k_limit_option,
                        .what_remains = what_remains},
                       settings, signals);
}

}  // namespace dblock::app
