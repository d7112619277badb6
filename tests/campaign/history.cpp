#include "campaign/history.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace dblock::campaign {
namespace {

using Json = nlohmann::ordered_json;

// Fields at their defaults are left out.
template <typename T>
void put(Json& json, const char* name, const T& value, const T& usual) {
  if (value != usual) json[name] = value;
}

template <typename T>
void get(const Json& json, const char* name, T& value) {
  if (const auto found = json.find(name); found != json.end()) found->get_to(value);
}

// One list of the fields for both directions.
template <typename JsonType, typename EventType, typename Each>
void each_field(JsonType& json, EventType& event, Each each) {
  const Event usual;
  each(json, "op", event.op, usual.op);
  each(json, "key", event.key, usual.key);
  each(json, "token", event.token, usual.token);
  each(json, "mode", event.mode, usual.mode);
  each(json, "slots", event.slots, usual.slots);
  each(json, "slot", event.slot, usual.slot);
  each(json, "what", event.what, usual.what);
  each(json, "group", event.group, usual.group);
  each(json, "verb", event.verb, usual.verb);
  each(json, "from", event.from, usual.from);
  each(json, "until", event.until, usual.until);
  each(json, "ttl", event.ttl, usual.ttl);
  each(json, "margin", event.margin, usual.margin);
  each(json, "step", event.step, usual.step);
  each(json, "code", event.code, usual.code);
  each(json, "seen", event.seen, usual.seen);
  each(json, "accepted", event.accepted, usual.accepted);
  each(json, "alive", event.alive, usual.alive);
  each(json, "held", event.held, usual.held);
  each(json, "say", event.say, usual.say);
}

Event from_json(const Json& json) {
  Event event;
  json.at("t").get_to(event.t);
  json.at("e").get_to(event.kind);
  each_field(json, event,
             [](const Json& all, const char* name, auto& value, const auto&) { get(all, name, value); });
  return event;
}

}  // namespace

Nanos now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * k_second + time.tv_nsec;
}

std::string to_line(const Event& event) {
  Json json{{"t", event.t}, {"e", event.kind}};
  each_field(json, event, [](Json& all, const char* name, const auto& value, const auto& usual) {
    put(all, name, value, usual);
  });
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<Event> read_history(std::istream& in) {
  std::vector<Event> events;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_discarded()) {
      events.push_back(from_json(json));
    } else if (in.peek() != std::istream::traits_type::eof()) {
      throw std::runtime_error("line " + std::to_string(number) + " of the history is no event: " + line);
    }
  }
  return events;
}

History::History(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) throw std::runtime_error("cannot write " + path_);
}

History::~History() {
  ::close(fd_);
}

void History::add(const Event& event) const {
  const std::string line = to_line(event);
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::runtime_error("cannot write to " + path_);
}

const char* to_string(Rule rule) {
  switch (rule) {
    case Rule::overlap:
      return "overlap";
    case Rule::tokens:
      return "tokens";
    case Rule::stale:
      return "stale";
    case Rule::deadline:
      return "deadline";
    case Rule::line:
      return "line";
    case Rule::outcome:
      return "outcome";
  }
  return "?";
}

}  // namespace dblock::campaign
