#include "cli/report/picture.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "base/width.hpp"
#include "cli/report/inspect_table.hpp"
#include "cli/report/table.hpp"

namespace dblock::cli {
namespace {

constexpr char k_new = '+';
constexpr char k_renewed = '*';

// Identifies one acquisition: the same process's next acquisition has another owner id.
std::string name_of(const lease::LockStatus& status) {
  return status.key + '\0' + std::to_string(status.slot) + '\0' + status.owner;
}

std::string counted(const std::vector<lease::LockStatus>& locks) {
  using lease::State;
  std::string text;
  for (const State state : {State::held, State::expired, State::cooldown, State::free, State::unknown}) {
    const auto count = std::ranges::count(locks, state, &lease::LockStatus::state);
    if (count == 0 && state != State::held) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(lease::to_string(state));
  }
  return text;
}

// "02:40:11" of "2026-11-22T02:40:11.000000Z".
std::string time_of_day(lease::ServerTime time) {
  return lease::format_time(time).substr(11, 8);
}

}  // namespace

void Picture::set_report(app::InspectReport report) {
  std::map<std::string, Mark> marks;
  for (const auto& status : report.listing.locks) {
    if (status.owner.empty()) continue;
    const auto before = marks_.find(name_of(status));
    Mark mark{status.renewed_at};
    if (before != marks_.end()) {
      if (before->second.renewed_at != status.renewed_at) mark.sign = k_renewed;
    } else if (report_) {
      mark.sign = k_new;
    }
    marks.emplace(name_of(status), mark);
  }
  marks_ = std::move(marks);
  report_ = std::move(report);
  trouble_.clear();
}

std::string Picture::title(Nanos age) const {
  std::string text = "dblock";
  if (report_) {
    text +=
        ": " + counted(report_->listing.locks) + " at " + time_of_day(report_->listing.server_time) + " UTC";
    if (!trouble_.empty()) text += ", " + format_age(std::chrono::duration_cast<Micros>(age)) + " ago";
  }
  return text + "; every " + format_duration(style_.every) + ", + new, * renewed, q quits";
}

std::vector<std::string> Picture::lines(std::size_t columns, std::size_t rows, Nanos age) const {
  const auto line = [&](const std::string& text, std::string_view color) {
    return painted(cut_to_columns(text, columns), color, style_.color);
  };
  std::vector<std::string> lines{line(title(age), k_dim)};
  // Without trouble an empty line stands here, so that the table does not jump.
  lines.push_back(trouble_.empty() ? "" : line("trouble: " + trouble_, k_red));
  if (!report_) return lines;
  for (const auto& heading : heading_lines(*report_)) lines.push_back(line(heading, k_dim));
  const auto mark = [this](const lease::LockStatus& status) {
    const auto known = marks_.find(name_of(status));
    return known == marks_.end() ? ' ' : known->second.sign;
  };
  auto table = table_lines(report_->listing, {style_.all, style_.color, columns, mark});
  if (table.size() == 1) table.push_back(line("  no lock is held", k_dim));
  const std::size_t room = rows > lines.size() ? rows - lines.size() : 0;
  if (table.size() > room && room > 0) {
    const std::size_t hidden = table.size() - room + 1;
    table.resize(room - 1);
    table.push_back(line("… and " + std::to_string(hidden) + " more", k_dim));
  }
  std::ranges::move(table, std::back_inserter(lines));
  lines.resize(std::min(lines.size(), rows));
  return lines;
}

}  // namespace dblock::cli
