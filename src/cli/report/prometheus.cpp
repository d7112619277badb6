// Report of inspect in the text format of Prometheus, for node_exporter's textfile collector.
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "cli/report/lock_fields.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

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

KeyRows& rows_of(std::vector<KeyRows>& keys, const std::string& key) {
  std::string labels = labels_of(key);
  const auto found = std::ranges::find(keys, labels, &KeyRows::labels);
  return found != keys.end() ? *found : keys.emplace_back(std::move(labels));
}

// Rows of one key follow each other.
std::vector<KeyRows> rows_by_key(const std::vector<lease::LockStatus>& locks,
                                 const std::vector<lease::Key>& named) {
  std::vector<KeyRows> keys;
  for (auto at = locks.begin(); at != locks.end();) {
    const auto end = std::find_if(at, locks.end(), [&](const auto& lock) { return lock.key != at->key; });
    keys.push_back({labels_of(at->key), {at, end}});
    at = end;
  }
  for (const auto& key : named) rows_of(keys, key.bytes()).named = true;
  return keys;
}

std::string headed(std::string_view name, std::string_view help, const std::string& samples) {
  if (samples.empty()) return {};
  return "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) +
         " gauge\n" + samples;
}

std::string line_of(std::string_view name, const std::string& labels, const std::string& value) {
  return std::string(name) + "{" + labels + "} " + value + "\n";
}

std::string samples_of(const LockMetric& metric, const std::vector<KeyRows>& keys) {
  std::string samples;
  for (const auto& key : keys) {
    const Sample sample = metric.sample(key);
    if (!sample) continue;
    samples += metric.label.empty()
                   ? line_of(metric.name, key.labels, *sample)
                   : line_of(metric.name,
                             key.labels + "," + std::string(metric.label) + "=" + label_value(*sample), "1");
  }
  return samples;
}

std::string of_locks(const std::vector<KeyRows>& keys) {
  std::string text;
  for (const auto* field : ranked_fields([](const LockField& field) { return field.metric.place; }))
    text += headed(field->metric.name, field->metric.help, samples_of(field->metric, keys));
  return text;
}

std::string of_pauses(const std::vector<lease::Pause>& pauses) {
  constexpr std::string_view k_name = "dblock_pause_end_timestamp_seconds";
  std::string samples;
  for (const auto& pause : pauses)
    samples += line_of(k_name, labels_of(pause.scope.text, pause.scope.is_prefix ? "prefix" : "key"),
                       in_seconds(pause.until.since_epoch));
  return headed(k_name, "When the pause of this key, or of all keys with this prefix, ends.", samples);
}

}  // namespace

std::string prometheus_text(const lease::Listing& listing, const std::vector<lease::Key>& named) {
  constexpr std::string_view k_name = "dblock_server_time_seconds";
  return headed(k_name, "The database's clock when this was read; old when reading fails.",
                std::string(k_name) + " " + in_seconds(listing.server_time.since_epoch) + "\n") +
         of_locks(rows_by_key(listing.locks, named)) + of_pauses(listing.pauses);
}

}  // namespace dblock::cli
