#include "lease/past_run.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace dblock::lease {
namespace {

constexpr std::array<std::pair<RunOutcome, std::string_view>, 8> k_outcomes{{
    {RunOutcome::succeeded, "succeeded"},
    {RunOutcome::failed, "failed"},
    {RunOutcome::signalled, "signalled"},
    {RunOutcome::timed_out, "timed_out"},
    {RunOutcome::lost, "lost"},
    {RunOutcome::released, "released"},
    {RunOutcome::not_run, "not_run"},
    {RunOutcome::abandoned, "abandoned"},
}};

}  // namespace

bool is_failure(RunOutcome outcome) {
  return outcome == RunOutcome::failed || outcome == RunOutcome::signalled ||
         outcome == RunOutcome::timed_out || outcome == RunOutcome::abandoned;
}

std::string_view to_string(RunOutcome outcome) {
  const auto* const it = std::ranges::find(k_outcomes, outcome, &decltype(k_outcomes)::value_type::first);
  return it == k_outcomes.end() ? "unknown" : it->second;
}

std::optional<RunOutcome> parse_outcome(std::string_view text) {
  const auto* const it = std::ranges::find(k_outcomes, text, &decltype(k_outcomes)::value_type::second);
  if (it == k_outcomes.end()) return std::nullopt;
  return it->first;
}

}  // namespace dblock::lease
