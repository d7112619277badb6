// inspect's formats for other programs: read back by strict readers of RFC 4180 and of Prometheus' text
// format.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/text.hpp"
#include "cli/report/report.hpp"
#include "cli_fixture.hpp"
#include "support/catch.hpp"

namespace dblock::cli {
namespace {

std::string shown(std::vector<lease::LockStatus> locks, Shape shape,
                  const std::vector<std::string>& named = {}) {
  app::InspectReport report;
  report.listing.server_time.since_epoch = 1h + 1us;
  report.listing.locks = std::move(locks);
  app::InspectRequest request;
  for (const auto& key : named) request.keys.push_back(*lease::Key::parse(key));
  OutputOptions output;
  output.shape = shape;
  return report_inspected(report, request, output, true);
}

using Record = std::vector<std::string>;

// Refuses what RFC 4180 does not allow: a quote inside a bare field, text after a closing quote, a line end
// that is not CRLF, an unended last line.
std::vector<Record> read_csv(const std::string& text) {
  std::vector<Record> records;
  Record record;
  for (std::size_t at = 0; at < text.size();) {
    std::string field;
    if (text[at] == '"') {
      for (++at;; ++at) {
        REQUIRE(at < text.size());
        if (text[at] == '"' && text.compare(at, 2, "\"\"") != 0) break;
        field += text[at];
        if (text[at] == '"') ++at;
      }
      ++at;
    } else {
      const auto end = text.find_first_of(",\r\n\"", at);
      REQUIRE(end != std::string::npos);
      field = text.substr(at, end - at);
      at = end;
    }
    record.push_back(field);
    REQUIRE(at < text.size());
    if (text[at] == ',') {
      ++at;
      continue;
    }
    REQUIRE(text.compare(at, 2, "\r\n") == 0);
    at += 2;
    records.push_back(std::move(record));
    record.clear();
  }
  CHECK(record.empty());
  return records;
}

// One record by the names of its columns.
std::map<std::string, std::string> named_fields(const std::vector<Record>& records, std::size_t index) {
  std::map<std::string, std::string> fields;
  REQUIRE(index < records.size());
  REQUIRE(records[index].size() == records[0].size());
  for (std::size_t i = 0; i < records[0].size(); ++i) fields[records[0][i]] = records[index][i];
  CHECK(fields.size() == records[0].size());
  return fields;
}

using Labels = std::map<std::string, std::string>;
struct Series {
  std::string name;
  Labels labels;
  auto operator<=>(const Series&) const = default;
};

// The text format, version 0.0.4, and what node_exporter's collector asks of it besides: one HELP and one
// TYPE for a metric, before its samples and these together; no time stamps; no series twice.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    REQUIRE(is_utf8(text));
    REQUIRE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) take(line);
  }

  [[nodiscard]] std::string value(const std::string& name, const Labels& labels) const {
    const auto found = samples_.find({name, labels});
    return found == samples_.end() ? "none" : found->second;
  }
  [[nodiscard]] std::size_t count(const std::string& name) const {
    return static_cast<std::size_t>(
        std::ranges::count(samples_, name, [](const auto& sample) { return sample.first.name; }));
  }

 private:
  void take(const std::string& line) {
    INFO(line);
    static const std::regex comment("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
    std::smatch parts;
    if (std::regex_match(line, parts, comment)) return take_comment(parts[1], parts[2], parts[3]);
    take_sample(line);
  }

  void take_comment(const std::string& kind, const std::string& name, const std::string& rest) {
    REQUIRE((kind == "HELP" ? helped_ : typed_).insert(name).second);
    if (kind == "HELP") REQUIRE(rest.find('\\') == std::string::npos);
    if (kind == "TYPE") REQUIRE(rest == "gauge");
    REQUIRE(std::ranges::none_of(samples_, [&](const auto& sample) { return sample.first.name == name; }));
    current_ = name;
  }

  void take_sample(const std::string& line) {
    static const std::regex number(" -?[0-9]+(\\.[0-9]+)?");
    Series series;
    std::size_t at = line.find_first_of("{ ");
    REQUIRE(at != std::string::npos);
    series.name = line.substr(0, at);
    REQUIRE(series.name == current_);
    REQUIRE((helped_.contains(series.name) && typed_.contains(series.name)));
    if (line[at] == '{') at = take_labels(line, at + 1, series.labels);
    REQUIRE(std::regex_match(line.substr(at), number));
    REQUIRE(samples_.emplace(series, line.substr(at + 1)).second);
  }

  static std::size_t take_labels(const std::string& line, std::size_t at, Labels& labels) {
    for (;;) {
      const auto equals = line.find('=', at);
      REQUIRE(equals != std::string::npos);
      const std::string name = line.substr(at, equals - at);
      REQUIRE(std::regex_match(name, std::regex("[a-zA-Z_][a-zA-Z0-9_]*")));
      std::string value;
      REQUIRE(line.at(equals + 1) == '"');
      for (at = equals + 2; line.at(at) != '"'; ++at) {
        if (line[at] != '\\') {
          value += line[at];
          continue;
        }
        const char escaped = line.at(++at);
        REQUIRE(std::string("\\\"n").find(escaped) != std::string::npos);
        value += escaped == 'n' ? '\n' : escaped;
      }
      REQUIRE(labels.emplace(name, value).second);
      const char next = line.at(at + 1);
      at += 2;
      if (next == '}') return at;
      REQUIRE(next == ',');
    }
  }

  std::set<std::string> helped_, typed_;
  std::string current_;
  std::map<Series, std::string> samples_;
};

TEST_CASE("csv has a header and a row for each holder, named like the fields of the JSON") {
  auto lock = held_lock("k");
  lock.last =
      lease::PastRun{lease::ServerTime{10min}, lease::ServerTime{30min}, lease::RunOutcome::failed, 7, {}};
  lock.last_success = lease::PastRun{lease::ServerTime{1min}, lease::ServerTime{2min}, {}, {}, {}};
  lock.waiters = {{"web1", 7, "job", {1h}}, {"web2", 8, "job", {1h}}};
  const auto records = read_csv(shown({lock, free_lock("z")}, Shape::csv));
  REQUIRE(records.size() == 3);
  auto fields = named_fields(records, 1);
  CHECK(fields["server_time"] == "1970-01-01T01:00:00.000001Z");
  CHECK(fields["key"] == "k");
  CHECK(fields["state"] == "held");
  CHECK(fields["token"] == "17");
  CHECK(fields["held_ms"] == "90000");
  CHECK(fields["waiters"] == "2");
  CHECK(fields["last_acquired_at"] == "1970-01-01T00:10:00.000000Z");
  CHECK(fields["last_outcome"] == "failed");
  CHECK(fields["last_exit_code"] == "7");
  CHECK(fields["last_success_released_at"] == "1970-01-01T00:02:00.000000Z");
  auto free = named_fields(records, 2);
  CHECK(free["key"] == "z");
  for (const char* name : {"owner", "host", "waiters", "last_outcome", "last_success_acquired_at"})
    CHECK(free[name].empty());
  CHECK(shown({}, Shape::csv) == shown({lock}, Shape::csv).substr(0, shown({}, Shape::csv).size()));
}

TEST_CASE("the columns of csv keep their numbers: a new one goes to the end") {
  CHECK(shown({}, Shape::csv) ==
        "server_time,key,kind,mode,slot,state,owner,token,count,host,pid,user,command,note,acquired_at,"
        "renewed_at,expires_at,ttl_ms,margin_ms,remaining_ms,held_ms,waiters,last_acquired_at,"
        "last_released_at,last_outcome,last_exit_code,last_success_acquired_at,last_success_released_at,"
        "failures,job_ended_at\r\n");
  OutputOptions output;
  output.shape = Shape::csv;
  CHECK(report_history({}, output, false) ==
        "key,kind,mode,owner,token,host,pid,user,command,note,acquired_at,released_at,recorded_at,held_ms,"
        "outcome,exit_code,attempts\r\n");
}

TEST_CASE("nothing that a row says breaks a line or a field of csv") {
  auto lock = held_lock(k_hostile);
  lock.holder = {"a,b", 1, "say \"hi\"", k_hostile, " padded "};
  auto other = held_lock("plain");
  other.holder = {"\"", 1, "", "=HYPERLINK(\"http://x\",\"y\")", "a\\b"};
  const std::string text = shown({lock, other}, Shape::csv);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(std::ranges::count(text, '\n') == 3);
  const auto records = read_csv(text);
  auto fields = named_fields(records, 1);
  CHECK(fields["key"] == escape_untrusted(k_hostile));
  CHECK(fields["host"] == "a,b");
  CHECK(fields["user"] == "say \"hi\"");
  CHECK(fields["note"] == " padded ");
  fields = named_fields(records, 2);
  CHECK(fields["host"] == "\"");
  CHECK(fields["command"] == "\\x3dHYPERLINK(\"http://x\",\"y\")");  // for no spreadsheet a formula
  CHECK(fields["note"] == "a\\\\b");
}

TEST_CASE("no text is a formula in csv, where a semicolon separates as little as where a comma does") {
  const std::vector<std::string> texts{"=1+1",  "\uff1d1+1",   "\uff0b1", "\uff0d1",   "\uff201", "a;=1+1;b",
                                       "a; @x", "a,;\"=1+1\"", "a;;-1",   "a;\uff1d1", " +1",     ";+1"};
  for (const auto& text : texts) {
    auto lock = held_lock("k");
    lock.holder.note = text;
    const std::string csv = shown({lock}, Shape::csv);
    CAPTURE(text, csv);
    const std::string note = named_fields(read_csv(csv), 1)["note"];
    for (const std::string start : {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"}) {
      CHECK_FALSE(note.starts_with(start));
      for (const std::string before : {";", "; ", ";\""})
        CHECK(note.find(before + start) == std::string::npos);
    }
  }
  auto lock = held_lock("k");
  lock.holder.note = "a=b; c-d;e\uff1df";
  CHECK(named_fields(read_csv(shown({lock}, Shape::csv)), 1)["note"] == lock.holder.note);
}

TEST_CASE("two keys that a terminal would show alike are told apart in every format") {
  const std::vector<std::string> hidden{"a\xe2\x80\x8b", "a\xc2\xad", "a\xf3\xa0\x81\xa1", "a\xef\xb8\x8f"};
  const std::vector<std::string> escaped{"a\\u{200b}", "a\\u{ad}", "a\\u{e0061}", "a\\u{fe0f}"};
  const std::vector<std::string> json{R"("a\u200b")", R"("a\u00ad")", R"("a\udb40\udc61")", R"("a\ufe0f")"};
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    const auto lock = held_lock(hidden[i]);
    CHECK_THAT(shown({lock}, Shape::table), Catch::Contains(escaped[i]));
    CHECK(named_fields(read_csv(shown({lock}, Shape::csv)), 1)["key"] == escaped[i]);
    CHECK(Exposition(shown({lock}, Shape::prometheus))
              .value("dblock_holders", {{"key", escaped[i]}, {"escaped", "true"}}) == "1");
    app::InspectReport report;
    report.listing.locks = {lock};
    OutputOptions output;
    output.json = true;
    CHECK_THAT(report_inspected(report, {}, output, false), Catch::Contains(json[i]));
  }
}

TEST_CASE("prometheus tells of held and of free locks") {
  auto held = held_lock("etl");
  held.waiters = {{"web1", 7, "job", {1h}}};
  auto free = free_lock("backup");
  free.waiters.emplace();
  free.last = lease::PastRun{
      lease::ServerTime{10min}, lease::ServerTime{30min + 250ms}, lease::RunOutcome::failed, 7, {}};
  free.last_success = lease::PastRun{lease::ServerTime{1min}, lease::ServerTime{2min}, {}, {}, {}};
  const Exposition seen(shown({free, held}, Shape::prometheus));
  CHECK(seen.value("dblock_server_time_seconds", {}) == "3600.000001");
  CHECK(seen.value("dblock_holders", {{"key", "etl"}}) == "1");
  CHECK(seen.value("dblock_held_seconds", {{"key", "etl"}}) == "90.000000");
  CHECK(seen.value("dblock_expires_in_seconds", {{"key", "etl"}}) == "30.000000");
  CHECK(seen.value("dblock_heartbeat_age_seconds", {{"key", "etl"}}) == "1.500000");
  CHECK(seen.value("dblock_waiters", {{"key", "etl"}}) == "1");
  CHECK(seen.value("dblock_last_success_timestamp_seconds", {{"key", "etl"}}) == "none");
  CHECK(seen.value("dblock_holders", {{"key", "backup"}}) == "0");
  CHECK(seen.value("dblock_held_seconds", {{"key", "backup"}}) == "none");
  CHECK(seen.value("dblock_waiters", {{"key", "backup"}}) == "0");
  CHECK(seen.value("dblock_last_success_timestamp_seconds", {{"key", "backup"}}) == "120.000000");
  CHECK(seen.value("dblock_last_end_timestamp_seconds", {{"key", "backup"}}) == "1800.250000");
  CHECK(seen.value("dblock_last_duration_seconds", {{"key", "backup"}}) == "1200.250000");
  CHECK(seen.value("dblock_last_outcome", {{"key", "backup"}, {"outcome", "failed"}}) == "1");
  CHECK(seen.value("dblock_last_exit_code", {{"key", "backup"}}) == "7");
  CHECK(Exposition(shown({}, Shape::prometheus)).count("dblock_holders") == 0);
}

TEST_CASE("prometheus has one series a key for several holders, and says what is worst among them") {
  std::vector<lease::LockStatus> readers{held_lock("k", 10s, 30s), held_lock("k", 90s, 20s),
                                         held_lock("k", 30s, -5s)};
  for (std::uint32_t slot = 1; auto& reader : readers) {
    reader.sharing.mode = lease::Mode::shared;
    reader.slot = slot++;
  }
  const Exposition seen(shown(readers, Shape::prometheus));
  CHECK(seen.value("dblock_holders", {{"key", "k"}}) == "2");
  CHECK(seen.value("dblock_expired_holders", {{"key", "k"}}) == "1");
  CHECK(seen.value("dblock_held_seconds", {{"key", "k"}}) == "90.000000");
  CHECK(seen.value("dblock_expires_in_seconds", {{"key", "k"}}) == "-5.000000");
  CHECK(seen.count("dblock_held_seconds") == 1);
}

TEST_CASE("labels hold any key, and no two keys have the same") {
  const std::vector<std::string> keys{
      "back\\slash \"quoted\" {a=\"b\"},", "áé 鍵", "\\xff", "line\nend", "\xff", k_hostile};
  std::vector<lease::LockStatus> locks;
  for (const auto& key : keys) locks.push_back(held_lock(key));
  const std::string text = shown(locks, Shape::prometheus);
  for (const char* raw : {"\x1b", "\r", "\xe2\x80\xae", "\xc2\x9b"})
    CHECK(text.find(raw) == std::string::npos);
  const Exposition seen(text);
  for (std::size_t i = 0; i < 3; ++i) CHECK(seen.value("dblock_holders", {{"key", keys[i]}}) == "1");
  for (std::size_t i = 3; i < keys.size(); ++i) {
    CHECK(seen.value("dblock_holders", {{"key", escape_untrusted(keys[i])}, {"escaped", "true"}}) == "1");
  }
  CHECK(seen.count("dblock_holders") == keys.size());
}

TEST_CASE("a key asked for by name has a last success, even if it was never seen") {
  const Exposition seen(shown({free_lock("seen")}, Shape::prometheus, {"never", "seen"}));
  for (const char* key : {"never", "seen"}) {
    CHECK(seen.value("dblock_last_success_timestamp_seconds", {{"key", key}}) == "0");
    CHECK(seen.value("dblock_holders", {{"key", key}}) == "0");
  }
  const Exposition all(shown({free_lock("seen")}, Shape::prometheus));
  CHECK(all.value("dblock_last_success_timestamp_seconds", {{"key", "seen"}}) == "none");
}

TEST_CASE("csv of a history has a line for each run, with the fields of the JSON document") {
  lease::History history;
  lease::RecordedRun run;
  run.key = "=k,\"1\"";
  run.token = {17};
  run.holder = {"host", 0, "", "etl", k_hostile};
  run.acquired_at = lease::ServerTime{1h};
  run.released_at = lease::ServerTime{1h + 1500ms};
  run.recorded_at = *run.released_at;
  run.outcome = lease::RunOutcome::failed;
  run.exit_code = 3;
  run.attempts = 2;
  history.runs = {run};
  OutputOptions output;
  output.shape = Shape::csv;
  const auto records = read_csv(report_history(history, output, true));
  REQUIRE(records.size() == 2);
  const auto fields = named_fields(records, 1);
  CHECK(fields.at("key") == "\\x3dk,\"1\"");
  CHECK(fields.at("held_ms") == "1500");
  CHECK(fields.at("outcome") == "failed");
  CHECK(fields.at("exit_code") == "3");
  CHECK(fields.at("attempts") == "2");
  CHECK(fields.at("pid").empty());
  CHECK(fields.at("note") == escape_untrusted(k_hostile));
  CHECK(fields.at("acquired_at") == "1970-01-01T01:00:00.000000Z");
  history.runs.front().key.clear();
  CHECK(named_fields(read_csv(report_history(history, output, true)), 1).at("exit_code") == "3");
  history.runs.clear();
  CHECK(read_csv(report_history(history, output, true)).size() == 1);
}

TEST_CASE("the format is chosen once, and prometheus is about all keys") {
  const World world;
  CHECK(world.read({"inspect"}).output.shape == Shape::table);
  const auto csv = world.read({"inspect", "--format", "csv"});
  CHECK(csv.output.shape == Shape::csv);
  CHECK_FALSE(std::get<app::InspectRequest>(csv.request).all);
  const auto metrics = world.read({"inspect", "--format", "prometheus"});
  CHECK(metrics.output.shape == Shape::prometheus);
  CHECK(std::get<app::InspectRequest>(metrics.request).all);
  CHECK(world.read({"inspect", "--format", "html"}).output.shape == Shape::html);
  CHECK(world.read({"history"}).output.shape == Shape::table);
  CHECK(world.read({"history", "--format", "json"}).output.json);
  CHECK(world.read({"history", "--format", "csv"}).output.shape == Shape::csv);
  CHECK(world.read({"history", "--format", "prometheus"}).error->code == Errc::usage);
  CHECK(world.read({"inspect", "--format", "csv", "--json"}).error->code == Errc::usage);
  CHECK(world.read({"inspect", "--format", "yaml"}).error->code == Errc::usage);
}

}  // namespace
}  // namespace dblock::cli
