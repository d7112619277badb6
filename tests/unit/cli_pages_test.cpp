// The pages of history and inspect: read back by a strict reader of the HTML that they use.
#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "base/text.hpp"
#include "cli/report/report.hpp"
#include "cli_fixture.hpp"
#include "support/catch.hpp"

namespace dblock::cli {
namespace {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;  // as written
  std::string text;                               // directly behind the tag, as written
};

// Refuses what a browser would have to guess at: an unknown element, an attribute without quotes or with < in
// it, a bare & or >, elements that are closed in another order.
class Page {
 public:
  explicit Page(std::string html) : html_(std::move(html)) {
    std::size_t at = std::string("<!doctype html>\n").size();
    REQUIRE(html_.starts_with("<!doctype html>\n"));
    while (at < html_.size()) at = html_[at] == '<' ? tag(at) : text(at);
    CHECK(open_.empty());
  }

  [[nodiscard]] std::vector<Element> all(const std::string& name, const std::string& css = "") const {
    std::vector<Element> found;
    std::ranges::copy_if(elements_, std::back_inserter(found), is(name, css));
    return found;
  }
  [[nodiscard]] std::size_t count(const std::string& name, const std::string& css = "") const {
    return static_cast<std::size_t>(std::ranges::count_if(elements_, is(name, css)));
  }
  [[nodiscard]] const std::string& html() const { return html_; }

 private:
  // Elements with this name and this word among their classes.
  static std::function<bool(const Element&)> is(const std::string& name, const std::string& css) {
    return [name, word = " " + css + " "](const Element& element) {
      if (element.name != name) return false;
      if (word == "  ") return true;
      const auto classes = element.attributes.find("class");
      return classes != element.attributes.end() &&
             (" " + classes->second + " ").find(word) != std::string::npos;
    };
  }
  // Not an assertion for each character: Catch is slow at that.
  static void need(bool holds, const std::string& what) {
    if (!holds) FAIL(what);
  }
  std::size_t text(std::size_t at) {
    const auto end = std::min(html_.find('<', at), html_.size());
    const std::string piece = html_.substr(at, end - at);
    if (!open_.empty() && open_.back() != "style") check_text(piece);
    if (!elements_.empty() && elements_.back().text.empty()) elements_.back().text = piece;
    return end;
  }

  static void check_text(const std::string& text) {
    static const std::set<std::string> known{"amp", "lt", "gt", "quot", "#39", "#10"};
    need(text.find('>') == std::string::npos, text);
    for (auto at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1))
      need(known.contains(text.substr(at + 1, text.find(';', at) - at - 1)), text);
  }

  std::size_t tag(std::size_t at) {
    static const std::set<std::string> known{
        "html",    "head",    "meta",  "title",   "style", "body",  "a",  "header", "h1", "p",
        "ul",      "li",      "i",     "main",    "div",   "span",  "b",  "small",  "em", "section",
        "details", "summary", "table", "caption", "thead", "tbody", "tr", "th",     "td", "footer"};
    const auto name_end = html_.find_first_of(" >", at + 1);
    need(name_end != std::string::npos, "an open tag");
    const bool closes = html_[at + 1] == '/';
    const std::string name = html_.substr(at + 1 + (closes ? 1 : 0), name_end - at - 1 - (closes ? 1 : 0));
    need(known.contains(name), name);
    if (closes) {
      need(!open_.empty() && open_.back() == name, "closed: " + name);
      open_.pop_back();
      return name_end + 1;
    }
    elements_.push_back({name, {}, {}});
    if (name != "meta") open_.push_back(name);
    return attributes(name_end);
  }

  std::size_t attributes(std::size_t at) {
    while (html_.at(at) == ' ') {
      const auto equals = html_.find('=', at);
      need(html_.at(equals + 1) == '"', "no quotes");
      const auto end = html_.find('"', equals + 2);
      need(end != std::string::npos, "an open quote");
      const std::string name = html_.substr(at + 1, equals - at - 1);
      const std::string value = html_.substr(equals + 2, end - equals - 2);
      need(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos, name);
      need(!name.starts_with("on") && value.find('<') == std::string::npos, name + "=" + value);
      check_text(value);
      need(elements_.back().attributes.emplace(name, value).second, "twice: " + name);
      at = end + 1;
    }
    need(html_.at(at) == '>', html_.substr(at, 40));
    return at + 1;
  }

  std::string html_;
  std::vector<std::string> open_;
  std::vector<Element> elements_;
};

constexpr Micros k_evening = 20000 * 24h + 20h;

lease::RecordedRun run_at(const std::string& key, Micros after, Micros length,
                          std::optional<lease::RunOutcome> outcome = lease::RunOutcome::succeeded) {
  lease::RecordedRun run;
  run.key = key;
  run.token = {17};
  run.holder = {"host", 42, "user", "etl", "note"};
  run.acquired_at = lease::ServerTime{k_evening + after};
  run.released_at = lease::ServerTime{k_evening + after + length};
  run.recorded_at = *run.released_at;
  run.outcome = outcome;
  return run;
}

Page page_of_history(std::vector<lease::RecordedRun> runs, std::optional<Micros> since = {},
                     bool cut = false) {
  lease::History history;
  history.kept = true;
  history.server_time.since_epoch = k_evening + 12h;
  history.runs = std::move(runs);
  history.since = since;
  history.cut = cut;
  OutputOptions output;
  output.shape = Shape::html;
  return Page(report_history(history, output, true, 80));
}

double number_after(const std::string& text, const std::string& name) {
  const auto at = text.find(name);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + name.size()));
}
double left(const Element& bar) {
  return number_after(bar.attributes.at("style"), "left:");
}
double width(const Element& bar) {
  return number_after(bar.attributes.at("style"), "width:");
}

TEST_CASE("a page has no markup that a row made up, and no character that a terminal may not see") {
  const std::string markup = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{table}}";
  auto run = run_at(markup + k_hostile, 0s, 1h);
  run.holder = {markup, 1, k_hostile, markup, k_hostile + markup};
  const auto page = page_of_history({run});
  CHECK(std::ranges::none_of(page.html(),
                             [](char c) { return c != '\n' && static_cast<unsigned char>(c) < 0x20; }));
  for (const char* hidden : {"\xe2\x80\xae", "\xc2\x9b", "\xff", "<script", "<img"})
    CHECK(page.html().find(hidden) == std::string::npos);
  const auto shown = page.all("div", "name").front().text;
  CHECK(shown.starts_with(
      "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&gt;&lt;img src=x onerror=alert(2)&gt;&amp;amp;"
      "{{table}}\\x1b[31m"));
  CHECK_THAT(page.all("a", "bar").front().attributes.at("aria-label"), Catch::Contains("\\u{202e}"));
  CHECK(page.count("table") == 1);
}

TEST_CASE("a page loads nothing and runs nothing") {
  const auto page = page_of_history({run_at("k", 0s, 1h)});
  const auto policy = page.all("meta").at(1).attributes;
  CHECK(policy.at("http-equiv") == "Content-Security-Policy");
  CHECK(policy.at("content").starts_with("default-src 'none'; style-src 'unsafe-inline';"));
  for (const char* way : {"http:", "https:", "url(", "@import", "javascript:"})
    CHECK(page.html().find(way) == std::string::npos);
  CHECK(page.all("html").front().attributes.at("lang") == "en");
}

TEST_CASE("a page without runs says so, and one run has a bar and a row that tell of it") {
  CHECK(page_of_history({}).count("a", "bar") == 0);
  CHECK_THAT(page_of_history({}).html(), Catch::Contains("0 runs of 0 keys"));
  auto run = run_at("nightly", 10min, 90s, lease::RunOutcome::failed);
  run.exit_code = 7;
  const auto page = page_of_history({run});
  const auto bars = page.all("a", "bar");
  REQUIRE(bars.size() == 1);
  CHECK(bars[0].attributes.at("class") == "bar F");
  CHECK(bars[0].attributes.at("href") == "#r0");
  CHECK(bars[0].attributes.at("aria-label") ==
        "nightly: failed, exit code 7&#10;2024-10-04 20:10:00 to 2024-10-04 20:11:30 UTC, "
        "1m30s&#10;user@host:42 "
        "(etl)&#10;note: note&#10;token 17");
  REQUIRE(page.count("tr") == 2);
  CHECK(page.all("tr").back().attributes.at("id") == "r0");
  CHECK_THAT(page.html(), Catch::Contains("1 run of 1 key, 2024-10-04 20:10:00 to 2024-10-04 20:11:30 UTC."));
}

TEST_CASE("each outcome has a look of its own, and an unknown one too") {
  std::vector<lease::RecordedRun> runs;
  for (int i = 0; i < 8; ++i) runs.push_back(run_at("k", i * 1h, 30min, static_cast<lease::RunOutcome>(i)));
  runs.push_back(run_at("k", 8h, 30min, std::nullopt));
  const auto page = page_of_history(runs);
  std::set<std::string> looks;
  for (const auto& bar : page.all("a", "bar")) looks.insert(bar.attributes.at("class").substr(0, 6));
  CHECK(looks.size() == 9);
  for (const char* letter : {"F", "S", "T", "L", "A", "N"}) {
    REQUIRE(page.count("a", letter) == 1);
    CHECK(page.all("a", letter).front().text == letter);
  }
  CHECK(page.all("a", "U").front().text == "?");
  CHECK(page.all("em").front().text == "5 in trouble");
}

TEST_CASE("runs beside each other lie below each other, runs after each other in one lane") {
  std::vector<lease::RecordedRun> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(run_at("slots", i * 10min, 1h));
  slots.push_back(run_at("slots", 60min, 1h));  // as the first ends
  const auto page = page_of_history(slots);
  CHECK(page.count("div", "lane") == 3);
  CHECK(page.count("li", "many") == 1);
  CHECK(page.count("a", "bar") == 4);
  CHECK(page_of_history({run_at("k", 0s, 1h), run_at("k", 1h, 1h)}).count("div", "lane") == 1);
  for (int i = 0; i < 100; ++i) slots.push_back(run_at("slots", 70min, 1h));
  CHECK(page_of_history(slots).count("div", "lane") == 12);
}

TEST_CASE("a run that begins as another ends is marked as handed over") {
  const auto page = page_of_history({run_at("k", 2h + 40ms, 1h), run_at("k", 1h, 1h), run_at("k", 5h, 1h)});
  const auto handed = page.all("a", "handed");
  REQUIRE(handed.size() == 1);
  CHECK_THAT(handed[0].attributes.at("aria-label"),
             Catch::Contains("began 40ms after the end of the run before"));
}

TEST_CASE("a run whose release is before its begin is a bar of no length, and told as what it is") {
  const auto page = page_of_history({run_at("k", 1h, -30min), run_at("k", 2h, 1h)});
  const auto bar = page.all("a", "bar").front();
  CHECK(width(bar) == 0);
  CHECK_THAT(bar.attributes.at("aria-label"), Catch::Contains("a clock was set back"));
  auto broken = run_at("k", 1h, 0s);
  broken.acquired_at.reset();
  broken.released_at.reset();
  CHECK(page_of_history({broken}).count("a", "bar") == 1);
  broken.acquired_at = lease::ServerTime{Micros{std::int64_t{1} << 60}};
  broken.recorded_at = lease::ServerTime{Micros{-(std::int64_t{1} << 60)}};
  CHECK(page_of_history({broken, run_at("k", 1h, 1h)}).count("a", "bar") == 2);
}

TEST_CASE("a lease of many weeks does not press a night together") {
  const auto page = page_of_history({run_at("old", -2000h, 2001h), run_at("k", 1h, 6h)});
  CHECK(page.count("a", "early") == 1);
  const auto old = page.all("a", "early").front();
  CHECK(left(old) == 0);
  CHECK(width(page.all("a", "end").front()) > 15);
}

TEST_CASE("the bars of a page are where their times are") {
  const auto page = page_of_history({run_at("k", 0s, 3h), run_at("k", 6h, 3h), run_at("k", 9h, 3h)});
  const auto bars = page.all("a", "bar");
  REQUIRE(bars.size() == 3);
  CHECK(left(bars[0]) < 1);
  CHECK(std::abs(width(bars[0]) - width(bars[1])) < 0.01);
  CHECK(std::abs(left(bars[1]) - left(bars[0]) - 2 * width(bars[0])) < 0.01);
  CHECK(left(bars[2]) + width(bars[2]) <= 100);
  const auto labels = page.all("span");
  REQUIRE(labels.size() >= 6);
  CHECK(labels.size() <= 13);
  CHECK_THAT(page.html(), Catch::Contains("<b>2024-10-05</b>00:00</span>"));
}

TEST_CASE("the axis of a page is as long as the time that was asked for") {
  const auto one = page_of_history({run_at("k", 6h, 3h)}, 12h).all("a", "bar");
  REQUIRE(one.size() == 1);
  CHECK(std::abs(left(one[0]) - 50) < 1);
  CHECK(std::abs(width(one[0]) - 25) < 1);
  const auto older = page_of_history({run_at("k", -6h, 12h), run_at("k", 9h, 1h)}, 12h);
  CHECK(left(older.all("a", "early").at(0)) == 0);
  CHECK(std::abs(left(older.all("a", "bar").at(1)) - 75) < 1);
  CHECK(page_of_history({}, 12h).count("section", "timeline") == 1);
  // Where older runs are left out, an empty part of the axis would say that there were none.
  CHECK(left(page_of_history({run_at("k", 6h, 3h)}, 12h, true).all("a", "bar").at(0)) < 2);
}

TEST_CASE("five thousand runs make a page of limited size on which no failure is lost") {
  std::vector<lease::RecordedRun> runs;
  for (int i = 0; i < 5000; ++i)
    runs.push_back(run_at("job-" + std::to_string(i % 10), i * 8s, 5s,
                          i % 500 == 250 ? lease::RunOutcome::failed : lease::RunOutcome::succeeded));
  const auto page = page_of_history(runs);
  CHECK(page.html().size() < 2'000'000);
  CHECK(page.count("a", "bar") < 3000);
  CHECK(page.count("a", "F") == 10);
  CHECK(page.all("em").front().text == "10 in trouble");
  CHECK(page.count("tr") == 5001);
}

TEST_CASE("bars of many short runs say how many there were and how they ended") {
  std::vector<lease::RecordedRun> runs{run_at("other", 0s, 11h)};
  for (int i = 0; i < 20; ++i)
    runs.push_back(
        run_at("k", 1h + i * 1s, 500ms, i == 7 ? lease::RunOutcome::failed : lease::RunOutcome::succeeded));
  const auto bars = page_of_history(runs).all("a", "F");
  REQUIRE(bars.size() == 1);
  CHECK_THAT(
      bars[0].attributes.at("aria-label"),
      Catch::Contains("20 runs, 2024-10-04 21:00:00 to 2024-10-04 21:00:19 UTC&#10;1 failed, 19 succeeded"));
}

TEST_CASE("no number of runs or keys makes a page without end") {
  // Twelve runs of each key, a 240th of the page apart: so many columns a key has for its bars where keys are
  // few. Of 500 keys each has 40.
  std::vector<lease::RecordedRun> runs;
  for (int run = 0; run < 12; ++run)
    for (int key = 0; key < 600; ++key)
      runs.push_back(run_at("key-" + std::to_string(key), key % 20 * 1200s + run * 100s, 700ms));
  const auto page = page_of_history(runs);
  CHECK(page.count("li", "row") == 500);
  CHECK_THAT(page.html(), Catch::Contains("<p>1200 runs of further keys are not drawn"));
  CHECK_THAT(page.html(), Catch::Contains("The first 5000 of 7200 rows; the formats csv and json have all"));
  CHECK(page.count("tr") == 5001);
  CHECK(page.count("a", "bar") >= 500 * 2);
  CHECK(page.count("a", "bar") <= 500 * 3);
}

TEST_CASE("the page of inspect shows holders, the rest of their leases and waiters") {
  auto held = held_lock("held");
  held.waiters = {{"web2", 7, "anna", lease::ServerTime{1h - 12s}}};
  auto report = report_of({held, held_lock("expired", 90s, -1s), free_lock("free")});
  report.local_store = "sqlite:/<x>";
  OutputOptions output;
  output.shape = Shape::html;
  const Page page(report_inspected(report, {}, output, true));
  CHECK(page.count("a", "ok") == 1);
  CHECK(page.count("a", "M") == 1);
  CHECK(page.count("a", "X") == 1);
  REQUIRE(page.count("a", "W") == 1);
  CHECK_THAT(page.all("a", "W").front().attributes.at("aria-label"), Catch::Contains("anna@web2:7"));
  CHECK(page.count("tr") == 4);
  CHECK_THAT(page.html(),
             Catch::Contains("1 holder at 1970-01-01 01:00:00 UTC; locks of this user on this host only "
                             "(sqlite:/&lt;x&gt;)."));
  const Page none(report_inspected(report_of({}), {}, output, true));
  CHECK_THAT(none.html(), Catch::Contains("0 holders at"));
}

}  // namespace
}  // namespace dblock::cli
