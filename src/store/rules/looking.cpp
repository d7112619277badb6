// Looking: the answer that a request would get now.
#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "store/parameters.hpp"
#include "store/rules/sharing.hpp"
#include "store/rules/table_lease_store.hpp"

namespace dblock::store {
namespace {

using Call = Database::Call;
using lease::Answer;
using lease::LockStatus;

Result<Answer> look_at_several(LockTable& table, const lease::LeaseRequest& request) {
  std::optional<Answer> refusal;
  Answer last = lease::Free{};
  DBLOCK_TRY(const auto locks, read_rows(table, keys_of(request.key, request.further_keys), false));
  for (const auto& seen : locks) {
    if (!seen) continue;
    // An error (a mode that does not go with the holders') counts as free here: the next try reports it, also
    // where a key after this one is held.
    auto answer = answer_for(*seen, request);
    if (!answer && !refusal) return lease::Free{0, with_past_runs(*seen)};
    last = answer ? std::move(*answer) : lease::Free{0, with_past_runs(*seen)};
    // A success under any of the keys is the answer, even where another key is held.
    if (std::holds_alternative<lease::Done>(last)) return last;
    if (!std::holds_alternative<lease::Free>(last) && !refusal) refusal = last;
    if (refusal && !request.promises.once_per) break;
  }
  return refusal ? std::move(*refusal) : last;
}

// The answer to an exclusive request of one key, from the lock's own row.
Result<Answer> answer_from_own_row(LockTable& table, const lease::LeaseRequest& request,
                                   std::optional<LockStatus> seen) {
  if (!seen) return lease::Free{};
  if (seen->sharing.mode != lease::Mode::exclusive) return look_at_several(table, request);
  return answer_for({std::move(*seen), {}}, request);
}

bool is_free_member(const Answer& answer) {
  return std::holds_alternative<lease::Free>(answer);
}

// The request can choose: it holds no member yet, and more than one is free.
bool several_are_free(const std::vector<Answer>& answers) {
  return std::ranges::count_if(answers, is_free_member) > 1 &&
         std::ranges::none_of(
             answers, [](const Answer& answer) { return std::holds_alternative<lease::Granted>(answer); });
}

// The answer that a request of a pool would get now.
Result<Answer> look_at_pool(LockTable& table, const lease::LeaseRequest& request) {
  const auto members = lease::members_of(request);
  auto keys = keys_of(request.key, request.any);
  std::ranges::sort(keys);
  DBLOCK_TRY(const auto locks, read_rows(table, keys, false));
  const auto rows_of = [&](const lease::LeaseRequest& member) -> const std::optional<LockRows>& {
    return locks[static_cast<std::size_t>(std::ranges::lower_bound(keys, member.key) - keys.begin())];
  };
  std::vector<Answer> answers;
  for (const auto& member : members) {
    const auto& seen = rows_of(member);
    // As in look_at_several() an error counts as free.
    Answer answer = lease::Free{};
    if (seen) answer = answer_for(*seen, member).value_or(lease::Free{0, with_past_runs(*seen)});
    answers.push_back(std::move(answer));
  }
  if (!several_are_free(answers)) return best_of(std::move(answers));
  // Of several free members one that is for nobody else comes first.
  DBLOCK_TRY(const auto places, read_line(table, request));
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& seen = rows_of(members[i]);
    if (is_free_member(answers[i]) && !(seen && is_for_others(*seen, members[i], places)))
      return std::move(answers[i]);
  }
  return best_of(std::move(answers));
}

}  // namespace

Result<Answer> TableLeaseStore::look(const lease::LeaseRequest& request) {
  const Call call(*table_.database, {"look at", request.key});
  DBLOCK_CHECK(call.open());
  if (request.of_pool()) return with_pause(table_, look_at_pool(table_, request));
  if (!request.plain()) return with_pause(table_, look_at_several(table_, request));
  DBLOCK_TRY(auto seen, read_own_row(table_, request.key));
  return with_pause(table_, answer_from_own_row(table_, request, std::move(seen)));
}

Result<lease::SeenInLine> TableLeaseStore::look_in_line(const lease::LeaseRequest& request) {
  if (!request.plain()) return LeaseStore::look_in_line(request);
  const Call call(*table_.database, {"look at", request.key});
  DBLOCK_CHECK(call.open());
  DBLOCK_TRY(auto seen, table_.run(Verb::look_in_line, key_parameters(request.key)));
  const auto places =
      std::ranges::partition(seen.rows, [](const Row& row) { return row[row.size() - 1] == "0"; });
  auto own_row = read_look(std::span(seen.rows.begin(), places.begin()));
  DBLOCK_TRY(auto answer, with_pause(table_, answer_from_own_row(table_, request, std::move(own_row))));
  return lease::SeenInLine{std::move(answer), read_places(places)};
}

}  // namespace dblock::store
