// Rows of any content to every report: what a terminal, a JSON or CSV reader, Prometheus and a browser are
// given is well formed, says the same, and holds nothing that the row put there to mislead.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/width.hpp"
#include "cli/report/picture.hpp"
#include "cli/report/report.hpp"
#include "fuzz/fuzz.hpp"
#include "store/rows.hpp"

namespace dblock::fuzz {
namespace {

struct Told {
  app::InspectReport report;
  lease::History history;
  lease::ReapReport reaped;
};

// Fields end with 0x1f, records with 0x1e. An empty field is NULL.
store::Row row_in(Input& record) {
  store::Row row(store::k_status_columns + 1);
  for (std::size_t column = 0; column < row.size() && !record.empty(); ++column)
    if (std::string field = record.until('\x1f'); !field.empty()) row.set(column, std::move(field));
  return row;
}

lease::RecordedRun run_of(const store::Row& row) {
  const lease::LockStatus lock = store::read_status(row);
  lease::RecordedRun run{lock.key, lock.token, lock.owner, lock.kind, lock.sharing.mode, lock.holder};
  run.acquired_at = store::time(row[10]);
  run.released_at = store::time(row[11]);
  run.recorded_at = {store::micros(row[12])};
  run.outcome = lease::parse_outcome(row[20].value_or(""));
  if (row[21]) run.exit_code = static_cast<int>(store::number(row[21]));
  if (row[22]) run.attempts = static_cast<std::uint32_t>(store::unsigned_number(row[22]));
  return run;
}

// A record's first byte is its kind: a lock, a run that has ended, a pause, or a waiter of the lock before
// it.
void take_record(Told& told, const std::string& bytes) {
  Input record(bytes);
  const auto kind = record.byte();
  const auto row = row_in(record);
  auto& locks = told.report.listing.locks;
  if (kind == 'R') {
    told.history.runs.push_back(run_of(row));
  } else if (kind == 'P') {
    told.report.listing.pauses.push_back(store::read_pause(row));
  } else if (kind == 'W' && !locks.empty()) {
    if (!locks.back().waiters) locks.back().waiters.emplace();
    locks.back().waiters->push_back(store::read_place(row).waiter);
  } else {
    locks.push_back(store::read_status(row));
  }
}

Told told_by(Input& input) {
  Told told;
  for (int records = 0; records < 6 && !input.empty(); ++records) take_record(told, input.until('\x1e'));
  auto& locks = told.report.listing.locks;
  // As a store lists them: in order, each pause once, by its clock.
  auto& pauses = told.report.listing.pauses;
  std::ranges::stable_sort(pauses, {}, &lease::Pause::scope);
  pauses.erase(std::ranges::unique(pauses, {}, &lease::Pause::scope).begin(), pauses.end());
  std::ranges::stable_sort(locks, {}, &lease::LockStatus::key);
  if (!locks.empty()) told.report.listing.server_time = locks.front().server_time;
  for (auto& lock : locks) lock.server_time = told.report.listing.server_time;
  told.history.server_time = told.report.listing.server_time;
  told.reaped.abandoned = locks;
  return told;
}

std::string without_colour(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool colour = text.compare(i, 2, "\x1b[") == 0;
    if (colour) i = text.find('m', i);
    if (i == std::string::npos) break;
    if (!colour) plain += text[i];
  }
  return plain;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (Input rest(text); !rest.empty();) lines.push_back(rest.until('\n'));
  return lines;
}

void check_lines(const std::string& text, std::size_t columns) {
  demand(is_harmless(text, "\n"), "what a terminal shows is harmless", text);
  if (columns == 0) return;
  for (const auto& line : lines_of(text)) demand(display_width(line) <= columns, "a line fits", line);
}

void check_tables(const Told& told, std::size_t columns) {
  app::InspectRequest request;
  for (const bool all : {false, true}) {
    request.all = all;
    const auto table = cli::report_inspected(told.report, request, {}, false, columns);
    // The lines of pauses above a table are sentences, which are not cut.
    check_lines(table, told.report.listing.pauses.empty() ? columns : 0);
    demand(without_colour(cli::report_inspected(told.report, request, {}, true, columns)) == table,
           "colour changes no text", table);
  }
  check_lines(cli::report_history(told.history, {}, false, columns), columns);
  check_lines(cli::report_reaped(told.reaped, {}, {}), 0);
  for (const auto& lock : told.report.listing.locks) {
    app::ReleaseReport released{app::ReleaseReport::Action::described, lock.key, {{lock, "dblock"}}, {}, {}};
    check_lines(cli::report_released(released, {}), 0);
    released.action = app::ReleaseReport::Action::revoked;
    check_lines(cli::report_released(released, {}), 0);
  }
  for (const auto& pause : told.report.listing.pauses)
    check_lines(
        cli::report_paused({pause, pause}, {}) + cli::report_resumed({pause, {pause}}, pause.scope, {}), 0);
  cli::Picture picture({.every = std::chrono::seconds(2), .all = true, .color = false});
  picture.set_report(told.report);
  const auto lines = picture.lines(columns + 1, 9, Nanos{1});
  demand(lines.size() <= 9, "a picture has no more lines than the terminal");
  for (const auto& line : lines) check_lines(line, columns + 1);
}

nlohmann::json parsed(const std::string& line) {
  demand(std::ranges::all_of(line, [](char c) { return c == '\n' || (c >= ' ' && c < '\x7f'); }),
         "JSON is plain ASCII", line);
  auto document = nlohmann::json::parse(line, nullptr, false);
  demand(!document.is_discarded() && document["format"] == 1, "JSON can be parsed", line);
  return document;
}

void check_json_documents(const Told& told) {
  cli::OutputOptions output;
  output.json = true;
  const auto document = parsed(cli::report_inspected(told.report, {}, output, true));
  const auto& locks = told.report.listing.locks;
  demand(document["locks"].size() == locks.size(), "each lock is in the JSON");
  for (std::size_t i = 0; i < locks.size(); ++i) {
    const auto& lock = document["locks"][i];
    if (well_formed(locks[i].key)) demand(lock["key"] == locks[i].key, "JSON tells the key", locks[i].key);
    const auto token = locks[i].token.value;  // 0: of a row that was edited by hand, and unknown
    demand(token == 0 ? lock["token"].is_null() : lock["token"] == token, "JSON tells the token");
    demand(lock["state"] == lease::to_string(locks[i].state), "JSON tells the state");
  }
  demand(parsed(cli::report_history(told.history, output, true))["runs"].size() == told.history.runs.size(),
         "each run is in the JSON");
  parsed(cli::report_reaped(told.reaped, {}, output));
}

using Record = std::vector<std::string>;

// RFC 4180, strictly.
std::vector<Record> csv_in(const std::string& text) {
  std::vector<Record> records(1);
  for (std::size_t at = 0; at < text.size();) {
    std::string field;
    if (text[at] == '"') {
      for (++at; at < text.size() && (text[at] != '"' || text.compare(at, 2, "\"\"") == 0); ++at) {
        field += text[at];
        if (text[at] == '"') ++at;
      }
      ++at;
    } else {
      const auto end = std::min(text.find_first_of(",\r\n\"", at), text.size());
      field = text.substr(at, end - at);
      at = end;
    }
    records.back().push_back(field);
    const bool ends = text.compare(at, 2, "\r\n") == 0;
    demand(ends || text.compare(at, 1, ",") == 0, "a field of CSV ends with a comma or the line", text);
    at += ends ? 2 : 1;
    if (ends) records.emplace_back();
  }
  demand(records.back().empty(), "the last line of CSV ends", text);
  records.pop_back();
  return records;
}

void check_csv(const std::string& text, std::size_t rows) {
  demand(is_harmless(text, "\r\n"), "CSV is harmless", text);
  const auto records = csv_in(text);
  demand(records.size() == rows + 1, "each row is a record of CSV", text);
  for (const auto& record : records) {
    demand(record.size() == records[0].size(), "each record has each field", text);
    for (const auto& field : record) {
      const bool number = field.find_first_not_of("-0123456789") == std::string::npos;
      demand(number || field.empty() || std::string_view("=+-@").find(field[0]) == std::string_view::npos,
             "no field is a formula", field);
    }
  }
}

// A sample's labels and number; the names of labels are the product's own.
void check_sample(const std::string& line, std::set<std::string>& seen) {
  std::size_t at = line.find_first_of("{ ");
  demand(at != std::string::npos && line.starts_with("dblock_"), "a sample has a name and a number", line);
  if (line[at] == '{') {
    bool quoted = false;
    for (++at; at < line.size() && (quoted || line[at] != '}'); ++at) {
      if (quoted && line[at] == '\\') {
        ++at;
      } else if (line[at] == '"') {
        quoted = !quoted;
      }
    }
    ++at;
  }
  demand(line.compare(at, 1, " ") == 0, "a label ends where it should", line);
  char* end = nullptr;
  (void)std::strtod(line.c_str() + at + 1, &end);
  demand(end != line.c_str() + at + 1 && *end == '\0', "a sample's value is a number", line);
  demand(seen.insert(line.substr(0, at)).second, "no series is there twice", line);
}

void check_prometheus(const lease::Listing& listing) {
  const auto text = cli::prometheus_text(listing, {});
  demand(is_harmless(text, "\n") && text.ends_with('\n'), "metrics are harmless", text);
  std::set<std::string> seen;
  for (const auto& line : lines_of(text))
    if (!line.starts_with("# HELP ") && !line.starts_with("# TYPE ")) check_sample(line, seen);
}

// An element's name and attributes, from behind its '<' on.
void check_tag(std::string_view tag) {
  static const std::set<std::string_view, std::less<>> k_names{
      "!doctype", "a",     "b",  "body",    "caption", "details", "div",   "em",
      "footer",   "h1",    "h2", "head",    "header",  "html",    "i",     "li",
      "main",     "meta",  "p",  "section", "small",   "span",    "style", "summary",
      "table",    "tbody", "td", "th",      "thead",   "title",   "tr",    "ul"};
  if (tag.starts_with('/')) tag.remove_prefix(1);
  const auto name = tag.substr(0, tag.find_first_of(" >"));
  demand(k_names.contains(name), "a page has no other elements than its own", tag.substr(0, 80));
  for (tag.remove_prefix(name.size()); !tag.starts_with('>');) {
    tag.remove_prefix(1);
    const auto attribute = tag.substr(0, tag.find_first_of("= >"));
    demand(!attribute.starts_with("on") && attribute != "src", "an attribute runs and loads nothing",
           attribute);
    tag.remove_prefix(attribute.size());
    if (!tag.starts_with('=')) continue;
    demand(tag.starts_with("=\""), "an attribute's value is quoted", tag.substr(0, 80));
    const auto value = tag.substr(2, tag.find('"', 2) - 2);
    demand(attribute != "href" || value.starts_with('#'), "a link leads to its own page", value);
    tag.remove_prefix(value.size() + 3);
    demand(tag.starts_with(' ') || tag.starts_with('>'), "an attribute ends where it should",
           tag.substr(0, 80));
  }
}

void check_page(const std::string& page) {
  demand(is_harmless(page, "\n"), "a page is harmless", page);
  for (auto at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1))
    check_tag(std::string_view(page).substr(at + 1));
}

// The first two bytes are the terminal's columns.
std::string_view run_reports(Input input) {
  const std::size_t columns = input.number() % 250;
  const Told told = told_by(input);
  const auto& listing = told.report.listing;
  if (listing.locks.empty() && told.history.runs.empty() && listing.pauses.empty()) return "nothing";
  check_tables(told, columns);
  check_json_documents(told);
  check_csv(cli::csv_header() + cli::csv_rows(listing), listing.locks.size());
  check_csv(cli::csv_runs(told.history), told.history.runs.size());
  // A store has each lock's own row once; readers and holders of slots share their lock's series.
  check_prometheus(listing);
  check_page(cli::inspect_page(told.report, true));
  check_page(cli::history_page(told.history));
  return told.history.runs.empty() ? "locks" : "runs";
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(reports, dblock::fuzz::run_reports)
