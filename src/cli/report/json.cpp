#include "cli/report/json.hpp"

#include <algorithm>

namespace dblock::cli {
namespace {

Json json_last(const std::optional<lease::PastRun>& run) {
  if (!run) return nullptr;
  return {{"acquired_at", json_time(run->acquired_at)},
          {"released_at", json_time(run->released_at)},
          {"outcome", run->outcome ? Json(lease::to_string(*run->outcome)) : Json(nullptr)},
          {"exit_code", run->exit_code ? Json(*run->exit_code) : Json(nullptr)}};
}

Json json_last_success(const std::optional<lease::PastRun>& run) {
  if (!run) return nullptr;
  return {{"acquired_at", json_time(run->acquired_at)}, {"released_at", json_time(run->released_at)}};
}

Json json_waiters(const std::optional<std::vector<lease::Waiter>>& waiters) {
  if (!waiters) return nullptr;
  auto list = Json::array();
  for (const auto& waiter : *waiters) {
    list.push_back({{"host", text_or_null(waiter.host)},
                    {"pid", waiter.pid == 0 ? Json() : Json(waiter.pid)},
                    {"user", text_or_null(waiter.user)},
                    {"since", json_time(waiter.since)},
                    {"place", list.size() + 1}});
  }
  return list;
}

Json millis_between(const std::optional<lease::ServerTime>& from,
                    const std::optional<lease::ServerTime>& to) {
  if (!from || !to) return nullptr;
  return json_millis(std::max(to->since_epoch - from->since_epoch, Micros{0}));
}

}  // namespace

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
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
  const bool taken = !status.owner.empty();  // held, or expired and not yet cleared
  const std::optional now = status.server_time;
  const auto known = [taken](Json value) { return taken ? std::move(value) : Json(nullptr); };
  Json lock;
  lock["key"] = status.key;
  lock["kind"] = known(lease::to_string(status.kind));
  lock["mode"] = lease::to_string(status.sharing.mode);
  lock["slot"] =
      status.sharing.mode == lease::Mode::slot && status.slot > 0 ? Json(status.slot) : Json(nullptr);
  lock["state"] = lease::to_string(status.state);
  lock["owner"] = text_or_null(status.owner);
  lock["token"] = status.token.value == 0 ? Json(nullptr) : Json(status.token.value);
  lock["count"] = status.count;
  lock["host"] = known(text_or_null(status.holder.host));
  lock["pid"] = known(status.holder.pid == 0 ? Json(nullptr) : Json(status.holder.pid));
  lock["user"] = known(text_or_null(status.holder.user));
  lock["command"] = known(text_or_null(status.holder.command));
  lock["note"] = known(text_or_null(status.holder.note));
  lock["acquired_at"] = known(json_time(status.acquired_at));
  lock["renewed_at"] = known(json_time(status.renewed_at));
  lock["expires_at"] = known(json_time(status.expires_at));
  lock["ttl_ms"] = known(json_millis(status.ttl));
  lock["margin_ms"] = known(json_millis(status.margin));
  lock["remaining_ms"] = known(millis_between(now, status.expires_at));
  lock["held_ms"] = known(millis_between(status.acquired_at, now));
  lock["waiters"] = json_waiters(status.waiters);
  lock["last"] = json_last(status.last);
  lock["last_success"] = json_last_success(status.last_success);
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
          {"pid", run.holder.pid == 0 ? Json(nullptr) : Json(run.holder.pid)},
          {"user", text_or_null(run.holder.user)},
          {"command", text_or_null(run.holder.command)},
          {"note", text_or_null(run.holder.note)},
          {"acquired_at", json_time(run.acquired_at)},
          {"released_at", json_time(run.released_at)},
          {"recorded_at", json_time(run.recorded_at)},
          {"held_ms", ended ? json_millis(std::max(
                                  run.released_at->since_epoch - run.acquired_at->since_epoch, Micros{0}))
                            : Json(nullptr)},
          {"outcome", run.outcome ? Json(lease::to_string(*run.outcome)) : Json(nullptr)},
          {"exit_code", run.exit_code ? Json(*run.exit_code) : Json(nullptr)}};
}

}  // namespace dblock::cli
