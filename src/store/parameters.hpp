// Turns the values of callers into the parameters of statements, the same for both stores. The comment at a
// function names the parameters that it sets.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "lease/store.hpp"
#include "store/schema.hpp"
#include "store/verbs.hpp"

namespace dblock::store {

// Widths of the columns with text for people, in bytes of UTF-8 (columns of MariaDB count characters).
inline constexpr std::size_t k_name_bytes = 255;
inline constexpr std::size_t k_command_bytes = 2000;
inline constexpr std::size_t k_note_bytes = 1000;
inline constexpr std::size_t k_by_bytes = 600;

[[nodiscard]] Scalar micros_or_null(std::optional<Micros> length);
[[nodiscard]] Scalar time_or_null(const std::optional<lease::ServerTime>& time);
[[nodiscard]] inline Value flag(bool on) {
  return Scalar(std::int64_t{on ? 1 : 0});
}

[[nodiscard]] Parameters operator+(Parameters some, Parameters more);

// key
[[nodiscard]] Parameters key_parameters(const lease::Key& key);
// keys
[[nodiscard]] Parameters keys_parameters(const std::vector<lease::Key>& keys);
// keys, and rows with those keys: each of `rows` begins with its key
[[nodiscard]] Parameters rows_parameters(const std::vector<std::vector<Scalar>>& rows);
// key, slot
[[nodiscard]] Parameters row_parameters(const lease::Key& key, std::uint32_t slot);
// key, slot, token
[[nodiscard]] Parameters force_parameters(const lease::Key& key, std::uint32_t slot, lease::Token token);
// key, slot, owner, token of a lease as it was read
[[nodiscard]] Parameters seen_parameters(const lease::LockStatus& seen);
// key, first_slot, last_slot, owner, token, of_kind, leaves_nested
[[nodiscard]] Parameters ref_parameters(const lease::LeaseRef& ref, lease::Actor actor);
// outcome, is_success, is_failure, exit_code, attempts, cooldown
[[nodiscard]] Parameters end_parameters(lease::RunEnd end);
// keep
[[nodiscard]] Parameters cooldown_parameters(Micros cooldown);
// tells_job, ended_ago
[[nodiscard]] Parameters news_parameters(const std::optional<lease::JobNews>& news, BootTime now);
// mode, slots
[[nodiscard]] Parameters sharing_parameters(const lease::Sharing& sharing);
// kind, host, pid, user, command, note
[[nodiscard]] Parameters holder_parameters(lease::Kind kind, const lease::Holder& holder);
// All parameters of a grant, `key` among them.
[[nodiscard]] Parameters grant_parameters(const lease::LeaseRequest& request, const lease::Key& key);
// key, and the past runs of a lock: last_…, failures and success_…
[[nodiscard]] Parameters past_parameters(const lease::LockStatus& own_row);
// from, to: the range of the keys that start with `prefix`
[[nodiscard]] Parameters prefix_parameters(const std::optional<std::string>& prefix);
// since, limit, outcome, from, to: of one run more than the query's limit, so that it shows whether there are
// more
[[nodiscard]] Parameters history_parameters(const lease::HistoryQuery& query);
// keys: all of the request, and of each member of a pool; owner, arrival, length, mode, slots,
// waits_elsewhere, line, host, pid, user
[[nodiscard]] Parameters place_parameters(const lease::LeaseRequest& request, Micros length);
// pause_key, is_prefix, made_at: a stored pause
[[nodiscard]] Parameters pause_names(const lease::Pause& pause);
// pause_key, is_prefix, until, by, note
[[nodiscard]] Parameters pause_parameters(const lease::Pause& pause);
// keys, from, to, held_only, own_rows_only, limit
[[nodiscard]] Parameters selection_parameters(const lease::Selection& selection);
// forget_after, limit
[[nodiscard]] Parameters forget_parameters(Micros forget_after, std::size_t limit);
// version, serves, name
[[nodiscard]] Parameters migration_parameters(const Migration& migration);

}  // namespace dblock::store
