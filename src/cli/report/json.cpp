#include "cli/report/json.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cli/report/lock_fields.hpp"

namespace dblock::cli {

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json number_or_null(std::uint64_t number) {
  return number == 0 ? Json(nullptr) : Json(number);
}

std::string text_of(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return escape_untrusted(value.get_ref<const std::string&>());
  return value.is_array() ? std::to_string(value.size()) : value.dump();
}

Json json_document() {
  return {{"format", 1}};
}

std::string to_line(const Json& document) {
  return document.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Json json_time(const std::optional<lease::ServerTime>& time) {
  return time ? Json(lease::format_time(*time)) : Json(nullptr);
}

Json json_millis(Micros length) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(length).count();
}

Json json_outcome(const std::optional<lease::RunOutcome>& outcome) {
  return outcome ? Json(lease::to_string(*outcome)) : Json(nullptr);
}

Json json_exit_code(const std::optional<int>& code) {
  return code ? Json(*code) : Json(nullptr);
}

Json json_pause(const lease::Pause& pause) {
  Json shown;
  shown[pause.scope.is_prefix ? "prefix" : "key"] = pause.scope.text;
  shown["until"] = json_time(pause.until);
  shown["by"] = text_or_null(pause.by);
  shown["note"] = text_or_null(pause.note);
  shown["since"] = json_time(pause.since);
  return shown;
}

Json json_lock(const lease::LockStatus& status) {
  Json lock;
  for (const auto& field : lock_fields()) {
    const std::string name(field.name);
    if (field.object == nullptr) {
      lock[name] = value_of(field, status);
      continue;
    }
    Json& object = lock[std::string(field.object->name)];
    if (status.*(field.object->run)) object[name] = value_of(field, status);
  }
  return lock;
}

Json json_run(const lease::RecordedRun& run) {
  const bool ended = run.acquired_at && run.released_at;
  return {{"key", run.key},
          {"kind", lease::to_string(run.kind)},
          {"mode", lease::to_string(run.mode)},
          {"owner", text_or_null(run.owner)},
          {"token", run.token.value},
          {"host", text_or_null(run.holder.host)},
          {"pid", number_or_null(run.holder.pid)},
          {"user", text_or_null(run.holder.user)},
          {"command", text_or_null(run.holder.command)},
          {"note", text_or_null(run.holder.note)},
          {"acquired_at", json_time(run.acquired_at)},
          {"released_at", json_time(run.released_at)},
          {"recorded_at", json_time(run.recorded_at)},
          {"held_ms", ended ? json_millis(std::max(
                                  run.released_at->since_epoch - run.acquired_at->since_epoch, Micros{0}))
                            : Json(nullptr)},
          {"outcome", json_outcome(run.outcome)},
          {"exit_code", json_exit_code(run.exit_code)},
          {"attempts", run.attempts ? Json(*run.attempts) : Json(nullptr)}};
}

}  // namespace dblock::cli
