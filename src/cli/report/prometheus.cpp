// Report of inspect in the text format of Prometheus, for node_exporter's textfile collector.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

using lease::LockStatus;
using lease::ServerTime;

// The samples of one key, summed up over all its holders. Holders get no series of their own: that would need
// the owner id as a label, which makes a new series with every run.
struct KeySummary {
  std::string labels;
  std::size_t held = 0;
  std::size_t expired = 0;
  std::optional<Micros> held_for;    // of the holder that has held the lock for longest
  std::optional<Micros> expires_in;  // of the lease that ends first; below zero once it has expired
  std::optional<Micros> unrenewed;   // of the holder that has gone longest without a renewal
  std::optional<std::size_t> waiters;
  std::optional<lease::PastRun> last;
  std::optional<ServerTime> success;
  bool named = false;  // --key asked for it
};

std::string label_value(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '\\' || c == '"' ? std::string{'\\', c} : std::string(1, c);
  return out + "\"";
}

// A label may hold any text, but a key with characters that break lines or fool a terminal is escaped as in
// the table. Then the label `escaped` distinguishes it from a lock whose real name is the escaped text.
std::string labels_of(const std::string& key, const std::string& name = "key") {
  if (escape_message(key) == key) return name + "=" + label_value(key);
  return name + "=" + label_value(escape_untrusted(key)) + ",escaped=\"true\"";
}

std::optional<ServerTime> end_of(const lease::PastRun& run) {
  return run.released_at ? run.released_at : run.acquired_at;
}

void take_holder(KeySummary& key, const LockStatus& status) {
  const Micros now = status.server_time.since_epoch;
  key.held += status.state == lease::State::held ? 1 : 0;
  key.expired += status.state == lease::State::expired ? 1 : 0;
  if (status.acquired_at)
    key.held_for = std::max(key.held_for.value_or(Micros{0}), now - status.acquired_at->since_epoch);
  if (status.expires_at) {
    const Micros left = status.expires_at->since_epoch - now;
    key.expires_in = std::min(key.expires_in.value_or(left), left);
  }
  if (status.renewed_at)
    key.unrenewed = std::max(key.unrenewed.value_or(Micros{0}), now - status.renewed_at->since_epoch);
}

void take_row(KeySummary& key, const LockStatus& status) {
  if (!status.owner.empty()) take_holder(key, status);
  if (status.waiters) key.waiters = status.waiters->size();
  if (status.last && (!key.last || end_of(*status.last) > end_of(*key.last))) key.last = status.last;
  if (status.last_success && status.last_success->released_at)
    key.success = std::max(key.success, status.last_success->released_at);
}

KeySummary& summary_of(std::vector<KeySummary>& keys, const std::string& key) {
  std::string labels = labels_of(key);
  const auto found = std::ranges::find(keys, labels, &KeySummary::labels);
  if (found != keys.end()) return *found;
  keys.emplace_back().labels = std::move(labels);
  return keys.back();
}

// Rows of one key follow each other, so a comparison with the previous row finds where a new key begins.
std::vector<KeySummary> summaries(const lease::Listing& listing, const std::vector<lease::Key>& named) {
  std::vector<KeySummary> keys;
  const std::string* before = nullptr;
  for (const auto& status : listing.locks) {
    if (before == nullptr || *before != status.key) keys.emplace_back().labels = labels_of(status.key);
    before = &status.key;
    take_row(keys.back(), status);
  }
  for (const auto& key : named) summary_of(keys, key.bytes()).named = true;
  return keys;
}

// Microseconds as seconds with six decimals. No double: it would round, and a locale might write a comma.
std::string seconds(Micros time) {
  const auto micros = time.count();
  const auto positive = micros < 0 ? -micros : micros;
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%06lld", micros < 0 ? "-" : "",
                static_cast<long long>(positive / 1'000'000), static_cast<long long>(positive % 1'000'000));
  return text;
}

std::string flat(std::string_view labels, const std::string& value) {
  return "{" + std::string(labels) + "} " + value;
}

using Sample = std::optional<std::string>;  // labels and value, as written behind the metric's name

// All samples of one metric under one HELP and TYPE; empty if there are no samples.
template <typename SampleOf>
std::string metric(std::string_view name, std::string_view help, const std::vector<KeySummary>& keys,
                   const SampleOf& sample_of) {
  std::string samples;
  for (const auto& key : keys) {
    if (const Sample sample = sample_of(key)) samples += std::string(name) + *sample + "\n";
  }
  if (samples.empty()) return {};
  return "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) +
         " gauge\n" + samples;
}

std::string of_holders(const std::vector<KeySummary>& keys) {
  const auto length = [](std::optional<Micros> KeySummary::*field) {
    return [field](const KeySummary& key) -> Sample {
      if (!(key.*field)) return std::nullopt;
      return flat(key.labels, seconds(*(key.*field)));
    };
  };
  return metric("dblock_holders", "Holders of the lock whose leases run.", keys,
                [](const KeySummary& key) -> Sample { return flat(key.labels, std::to_string(key.held)); }) +
         metric(
             "dblock_expired_holders", "Holders whose leases have ended without a release.", keys,
             [](const KeySummary& key) -> Sample { return flat(key.labels, std::to_string(key.expired)); }) +
         metric("dblock_held_seconds", "How long the lock has been held, by its oldest holder.", keys,
                length(&KeySummary::held_for)) +
         metric("dblock_expires_in_seconds",
                "Until the first of the leases ends; below zero once it has ended.", keys,
                length(&KeySummary::expires_in)) +
         metric("dblock_heartbeat_age_seconds", "Since the lease was last renewed, or granted.", keys,
                length(&KeySummary::unrenewed)) +
         metric("dblock_waiters", "Processes that wait in line for the lock.", keys,
                [](const KeySummary& key) -> Sample {
                  if (!key.waiters) return std::nullopt;
                  return flat(key.labels, std::to_string(*key.waiters));
                });
}

Sample duration_of(const KeySummary& key) {
  if (!key.last || !key.last->acquired_at || !key.last->released_at) return std::nullopt;
  return flat(key.labels, seconds(key.last->released_at->since_epoch - key.last->acquired_at->since_epoch));
}

std::string of_past_runs(const std::vector<KeySummary>& keys) {
  return metric("dblock_last_success_timestamp_seconds",
                "When a job under this key last ended with 0; 0 for a key asked for by name that none has.",
                keys,
                [](const KeySummary& key) -> Sample {
                  if (!key.success) return key.named ? Sample(flat(key.labels, "0")) : std::nullopt;
                  return flat(key.labels, seconds(key.success->since_epoch));
                }) +
         metric("dblock_last_end_timestamp_seconds", "When the last run or lease under this key ended.", keys,
                [](const KeySummary& key) -> Sample {
                  if (!key.last || !key.last->released_at) return std::nullopt;
                  return flat(key.labels, seconds(key.last->released_at->since_epoch));
                }) +
         metric("dblock_last_duration_seconds", "How long the last run or lease under this key took.", keys,
                duration_of) +
         metric("dblock_last_outcome", "How the last run or lease ended: 1 for the outcome it had.", keys,
                [](const KeySummary& key) -> Sample {
                  if (!key.last || !key.last->outcome) return std::nullopt;
                  const std::string outcome(lease::to_string(*key.last->outcome));
                  return flat(key.labels + ",outcome=" + label_value(outcome), "1");
                }) +
         metric("dblock_last_exit_code", "Exit code of the last run, where its job had one.", keys,
                [](const KeySummary& key) -> Sample {
                  if (!key.last || !key.last->exit_code) return std::nullopt;
                  return flat(key.labels, std::to_string(*key.last->exit_code));
                });
}

std::string of_pauses(const std::vector<lease::Pause>& pauses) {
  if (pauses.empty()) return {};
  constexpr std::string_view k_name = "dblock_pause_end_timestamp_seconds";
  std::string text = "# HELP " + std::string(k_name) +
                     " When the pause of this key, or of all keys with this prefix, ends.\n# TYPE " +
                     std::string(k_name) + " gauge\n";
  for (const auto& pause : pauses) {
    text += std::string(k_name) +
            flat(labels_of(pause.scope.text, pause.scope.is_prefix ? "prefix" : "key"),
                 seconds(pause.until.since_epoch)) +
            "\n";
  }
  return text;
}

}  // namespace

std::string prometheus_text(const lease::Listing& listing, const std::vector<lease::Key>& named) {
  const auto keys = summaries(listing, named);
  return "# HELP dblock_server_time_seconds The database's clock when this was read; old when reading "
         "fails.\n"
         "# TYPE dblock_server_time_seconds gauge\n"
         "dblock_server_time_seconds " +
         seconds(listing.server_time.since_epoch) + "\n" + of_holders(keys) + of_past_runs(keys) +
         of_pauses(listing.pauses);
}

}  // namespace dblock::cli
