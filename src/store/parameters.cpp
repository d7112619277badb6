#include "store/parameters.hpp"

#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "store/rows.hpp"

namespace dblock::store {
namespace {

Scalar number_of(std::uint32_t number) {
  return std::int64_t{number};
}

Scalar number_or_null(const std::optional<int>& number) {
  if (!number) return nullptr;
  return std::int64_t{*number};
}

Scalar token_or_null(const std::optional<lease::Token>& token) {
  if (!token) return nullptr;
  return token->value;
}

}  // namespace

Scalar micros_or_null(std::optional<Micros> length) {
  if (!length) return nullptr;
  return std::int64_t{length->count()};
}

Scalar time_or_null(const std::optional<lease::ServerTime>& time) {
  if (!time) return nullptr;
  return std::int64_t{time->since_epoch.count()};
}

Parameters operator+(Parameters some, Parameters more) {
  some.insert(some.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  return some;
}

Parameters key_parameters(const lease::Key& key) {
  return {{"key", Scalar(key.bytes())}};
}

Parameters keys_parameters(const std::vector<lease::Key>& keys) {
  List list;
  for (const auto& key : keys) list.values.emplace_back(key.bytes());
  return {{"keys", std::move(list)}};
}

Parameters rows_parameters(const std::vector<std::vector<Scalar>>& rows) {
  List keys;
  List all{rows.empty() ? 1 : rows.front().size(), {}};
  for (const auto& row : rows) {
    keys.values.push_back(row.front());
    all.values.insert(all.values.end(), row.begin(), row.end());
  }
  return {{"keys", std::move(keys)}, {"rows", std::move(all)}};
}

Parameters row_parameters(const lease::Key& key, std::uint32_t slot) {
  return {{"key", Scalar(key.bytes())}, {"slot", number_of(slot)}};
}

Parameters force_parameters(const lease::Key& key, std::uint32_t slot, lease::Token token) {
  return row_parameters(key, slot) + Parameters{{"token", Scalar(token.value)}};
}

Parameters seen_parameters(const lease::LockStatus& seen) {
  return {{"key", Scalar(seen.key)},
          {"slot", number_of(seen.slot)},
          {"owner", Scalar(seen.owner)},
          {"token", Scalar(seen.token.value)}};
}

Parameters ref_parameters(const lease::LeaseRef& ref, lease::Actor actor) {
  const auto slot = lease::slot_of(ref);
  return {{"key", Scalar(ref.key.bytes())},
          {"first_slot", number_of(slot.value_or(0))},
          {"last_slot", number_of(slot.value_or(std::numeric_limits<std::uint32_t>::max()))},
          {"owner", Scalar(ref.owner.text)},
          {"token", token_or_null(ref.token)},
          {"of_kind",
           actor == lease::Actor::script ? Scalar(Word{lease::to_string(lease::Kind::acquire)}) : nullptr},
          {"leaves_nested", flag(actor == lease::Actor::holder)}};
}

Parameters end_parameters(lease::RunEnd end) {
  return Parameters{{"outcome", Scalar(Word{lease::to_string(end.outcome)})},
                    {"is_success", flag(end.outcome == lease::RunOutcome::succeeded)},
                    {"is_failure", flag(lease::is_failure(end.outcome))},
                    {"exit_code", number_or_null(end.exit_code)},
                    {"attempts", end.attempts ? number_of(*end.attempts) : Scalar(nullptr)}} +
         cooldown_parameters(end.cooldown);
}

Parameters cooldown_parameters(Micros cooldown) {
  return {{"cooldown", micros_or_null(cooldown > Micros{0} ? std::optional(cooldown) : std::nullopt)}};
}

Parameters news_parameters(const std::optional<lease::JobNews>& news, BootTime now) {
  std::optional<Micros> ended_ago;
  if (news && news->ended_at) ended_ago = std::chrono::duration_cast<Micros>(now - *news->ended_at);
  return {{"tells_job", flag(news.has_value())}, {"ended_ago", micros_or_null(ended_ago)}};
}

Parameters sharing_parameters(const lease::Sharing& sharing) {
  return {{"mode", Scalar(Word{lease::to_string(sharing.mode)})}, {"slots", number_of(sharing.slots)}};
}

Parameters holder_parameters(lease::Kind kind, const lease::Holder& holder) {
  return {{"kind", Scalar(Word{lease::to_string(kind)})},
          {"host", Scalar(Text{clean_utf8(holder.host, k_name_bytes)})},
          {"pid", number_of(holder.pid)},
          {"user", Scalar(Text{clean_utf8(holder.user, k_name_bytes)})},
          {"command", Scalar(Text{clean_utf8(holder.command, k_command_bytes)})},
          {"note", Scalar(Text{clean_utf8(holder.note, k_note_bytes)})}};
}

Parameters grant_parameters(const lease::LeaseRequest& request, const lease::Key& key) {
  const Micros min_hold = request.promises.min_hold;
  const auto of_period = [&period = request.promises.once_per](auto length) {
    return micros_or_null(period ? std::optional<Micros>(std::invoke(length, *period)) : std::nullopt);
  };
  Parameters parameters{
      {"key", Scalar(key.bytes())},
      {"owner", Scalar(request.owner.text)},
      {"ttl", micros_or_null(request.terms.ttl)},
      {"margin", micros_or_null(request.terms.margin)},
      {"heartbeat", micros_or_null(request.terms.heartbeat)},
      {"replaceable", flag(request.replaceable)},
      {"arrival", time_or_null(request.arrival)},
      {"newest", flag(request.line == lease::Line::newest)},
      {"min_hold", micros_or_null(min_hold > Micros{0} ? std::optional(min_hold) : std::nullopt)},
      {"period", of_period(&lease::OncePer::period)},
      {"look_back", of_period(&lease::OncePer::look_back)},
      {"look_ahead", of_period(&lease::OncePer::look_ahead)}};
  return std::move(parameters) + holder_parameters(request.kind, request.holder) +
         sharing_parameters(request.sharing);
}

Parameters past_parameters(const lease::LockStatus& own_row) {
  const lease::PastRun last = own_row.last.value_or(lease::PastRun{});
  const lease::PastRun success = own_row.last_success.value_or(lease::PastRun{});
  const Scalar outcome = last.outcome ? Scalar(Word{lease::to_string(*last.outcome)}) : Scalar(nullptr);
  return {{"key", Scalar(own_row.key)},
          {"last_acquired", time_or_null(last.acquired_at)},
          {"last_released", time_or_null(last.released_at)},
          {"last_outcome", outcome},
          {"last_exit_code", number_or_null(last.exit_code)},
          {"failures", number_of(last.failures)},
          {"success_acquired", time_or_null(success.acquired_at)},
          {"success_released", time_or_null(success.released_at)}};
}

Parameters place_parameters(const lease::LeaseRequest& request, Micros length) {
  const auto keys = lease::locks_of(request);
  return keys_parameters(keys) + holder_parameters(request.kind, request.holder) +
         sharing_parameters(request.sharing) +
         Parameters{{"owner", Scalar(request.owner.text)},
                    {"waits_elsewhere", flag(keys.size() > 1)},
                    {"arrival", time_or_null(request.arrival)},
                    {"length", micros_or_null(length)},
                    {"line", Scalar(Word{lease::to_string(request.line)})}};
}

namespace {
Parameters scope_parameters(const lease::PauseScope& scope) {
  return {{"pause_key", Scalar(scope.text)}, {"is_prefix", flag(scope.is_prefix)}};
}
}  // namespace

Parameters pause_names(const lease::Pause& pause) {
  return scope_parameters(pause.scope) + Parameters{{"made_at", time_or_null(pause.since)}};
}

Parameters pause_parameters(const lease::Pause& pause) {
  return scope_parameters(pause.scope) +
         Parameters{{"until", time_or_null(pause.until)},
                    {"by", Scalar(Text{clean_utf8(pause.by, k_by_bytes)})},
                    {"note", Scalar(Text{clean_utf8(pause.note, k_note_bytes)})}};
}

Parameters prefix_parameters(const std::optional<std::string>& prefix) {
  const std::string from = prefix.value_or("");
  const std::string to = after_prefix(from);
  return {{"from", Scalar(from)}, {"to", to.empty() ? Scalar(nullptr) : Scalar(to)}};
}

Parameters history_parameters(const lease::HistoryQuery& query) {
  const auto outcome = query.outcome ? Scalar(Word{lease::to_string(*query.outcome)}) : Scalar(nullptr);
  return prefix_parameters(query.prefix) +
         Parameters{{"since", micros_or_null(query.since)},
                    {"limit", Scalar(static_cast<std::int64_t>(query.limit) + 1)},
                    {"outcome", outcome}};
}

Parameters selection_parameters(const lease::Selection& selection) {
  const std::int64_t limit = selection.at_most ? static_cast<std::int64_t>(*selection.at_most)
                                               : std::numeric_limits<std::int64_t>::max();
  return keys_parameters(selection.keys) + prefix_parameters(selection.prefix) +
         Parameters{{"held_only", flag(selection.held_only)},
                    {"own_rows_only", flag(selection.keys_only)},
                    {"limit", Scalar(limit)}};
}

Parameters forget_parameters(Micros forget_after, std::size_t limit) {
  return {{"forget_after", micros_or_null(forget_after)},
          {"limit", Scalar(static_cast<std::int64_t>(limit))}};
}

Parameters migration_parameters(const Migration& migration) {
  return {{"version", number_of(migration.version)},
          {"serves", number_of(migration.serves)},
          {"name", Scalar(Text{std::string(migration.name)})}};
}

}  // namespace dblock::store
