#include "campaign/line_watcher.hpp"

#include <chrono>
#include <exception>

#include "campaign/witness.hpp"
#include "support/dblock.hpp"

namespace dblock::campaign {
namespace {

constexpr std::chrono::milliseconds k_interval{200};

}  // namespace

LineWatcher::LineWatcher(Stage& stage, const History& history, Nanos step)
    : stage_(stage), history_(history), step_(step), thread_([this] { watch(); }) {}

LineWatcher::~LineWatcher() {
  over_ = true;
}

void LineWatcher::watch() {
  while (!over_) {
    try {
      look();
    } catch (const std::exception&) {  // the store is away
    }
    test::pause_for(k_interval);
  }
  for (const auto& place : places_) tell(place);
}

// Two looks that found a place prove that it was there in between, if it counted for that long.
void LineWatcher::look() {
  const Nanos sent = now();
  const auto seen = stage_.places();
  const Nanos answered = now();
  Places places;
  for (const PlaceSeen& one : seen) {
    const int op = op_of(one.owner);
    if (op == 0) continue;
    const Nanos counts_until = sent + std::chrono::nanoseconds(one.counts_for).count() - step_;
    const auto known = places_.find({op, one.key});
    const bool stood = known != places_.end() && known->second.counts_until >= answered;
    places[{op, one.key}] =
        stood ? Stood{known->second.from, sent, counts_until} : Stood{answered, answered, counts_until};
    if (stood) places_.erase(known);
  }
  for (const auto& place : places_) tell(place);
  places_ = std::move(places);
}

void LineWatcher::tell(const Places::value_type& place) const {
  const auto& [who, stood] = place;
  if (stood.until <= stood.from) return;
  history_.add({.kind = "line", .t = stood.until, .from = stood.from, .op = who.first, .key = who.second});
}

}  // namespace dblock::campaign
