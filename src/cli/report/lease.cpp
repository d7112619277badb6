// Reports of acquire, renew and release.
#include "app/words/describe.hpp"
#include "base/duration.hpp"
#include "base/text.hpp"
#include "cli/report/json.hpp"
#include "cli/report/report.hpp"

namespace dblock::cli {
namespace {

std::string_view to_string(app::ReleaseReport::Action action) {
  using Action = app::ReleaseReport::Action;
  switch (action) {
    case Action::released:
      return "released";
    case Action::described:
      return "described";
    case Action::revoked:
      return "revoked";
    case Action::freed:
      break;
  }
  return "freed";
}

std::string age_of(const std::optional<lease::ServerTime>& time, const lease::LockStatus& status) {
  if (!time) return "unknown";
  return format_age(status.server_time.since_epoch - time->since_epoch) + " ago";
}

std::string describe_holder(const lease::LockStatus& status) {
  const auto every = status.heartbeat ? " (one every " + format_age(*status.heartbeat) + ")"
                                      : std::string(" (taken by acquire, renewed only on request)");
  return "holder:         " + lease::display_holder(status) + app::describe_sharing(status) + "\n" +
         "note:           " + (status.holder.note.empty() ? "-" : escape_untrusted(status.holder.note)) +
         "\n" + "last heartbeat: " + age_of(status.renewed_at, status) + every + "\n" + "to revoke it:   ";
}

std::string describe_cooldown(const lease::LockStatus& status) {
  return "cooling down:   for another " + app::describe_cooldown(status) + "\n" + "to end that:    ";
}

std::string describe(const app::ReleaseReport& report) {
  if (report.locks.empty()) return "nobody holds lock " + quote_untrusted(report.key) + "\n";
  std::string text;
  for (const auto& [status, next_command] : report.locks) {
    text += (text.empty() ? "key:            " : "\nkey:            ") + escape_untrusted(status.key) + "\n" +
            (status.owner.empty() ? describe_cooldown(status) : describe_holder(status)) + next_command +
            "\n";
  }
  return text;
}

Json json_affected(const app::ReleaseReport::Affected& affected) {
  Json lock = json_lock(affected.status);
  lock["next_command"] = affected.next_command.empty() ? Json(nullptr) : Json(affected.next_command);
  return lock;
}

}  // namespace

std::string report_acquired(const app::Acquired& acquired, const OutputOptions& output) {
  const auto& lease = acquired.lease;
  const auto token = std::to_string(lease.token.value);
  if (output.json) {
    auto document = json_document();
    document["key"] = lease.key.bytes();
    document["owner"] = lease.owner.text;
    document["token"] = lease.token.value;
    document["mode"] = lease::to_string(lease.sharing.mode);
    document["slot"] = number_or_null(lease.slot);
    document["ttl_ms"] = json_millis(lease.terms.ttl);
    document["margin_ms"] = json_millis(lease.terms.margin);
    document["acquired_at"] = json_time(acquired.status.acquired_at);
    document["expires_at"] = json_time(acquired.status.expires_at);
    return to_line(document);
  }
  if (output.shell) {
    return "export DBLOCK_KEY=" + shell_quote(lease.key.bytes()) +
           " DBLOCK_OWNER=" + shell_quote(lease.owner.text) + " DBLOCK_TOKEN=" + shell_quote(token) +
           (lease.slot > 0 ? " DBLOCK_SLOT=" + std::to_string(lease.slot) : "") + "\n";
  }
  return lease.owner.text + "\n";
}

std::string report_shell_failure(int code) {
  return "(exit " + std::to_string(code) + ")\n";
}

std::string report_renewed(const app::RenewedLease& renewed, const OutputOptions& output) {
  if (!output.json) return {};
  auto document = json_document();
  document["key"] = renewed.key.bytes();
  document["owner"] = renewed.owner.text;
  document["ttl_ms"] = json_millis(renewed.ttl);
  document["expires_at"] = json_time(renewed.expires_at);
  return to_line(document);
}

std::string report_released(const app::ReleaseReport& report, const OutputOptions& output) {
  using Action = app::ReleaseReport::Action;
  if (output.json) {
    auto document = json_document();
    document["action"] = to_string(report.action);
    document["key"] = report.key;
    document["locks"] = Json::array();
    for (const auto& affected : report.locks) document["locks"].push_back(json_affected(affected));
    return to_line(document);
  }
  if (report.action == Action::described) return describe(report);
  if (report.action == Action::released) return {};
  const auto& status = report.locks.front().status;
  return std::string(to_string(report.action)) + ": " + escape_untrusted(report.key) +
         (status.owner.empty() ? ", which was cooling down" : ", held by " + lease::display_holder(status)) +
         (report.now.empty() ? "" : "; " + report.now) + "\n";
}

}  // namespace dblock::cli
