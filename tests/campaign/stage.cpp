#include "campaign/stage.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <set>
#include <stdexcept>
#include <thread>

#include "support/database.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"
#include "support/proc_tree.hpp"
#include "support/proxy.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;

constexpr int k_proxies = 4;

// Short ones more often than long ones.
milliseconds some_time(Random& random, milliseconds least, milliseconds most) {
  const double share = static_cast<double>(random() % 1000) / 1000;
  return least + milliseconds(static_cast<int>(share * share * static_cast<double>((most - least).count())));
}

std::vector<PlaceSeen> places_in(const std::vector<test::Row>& rows) {
  std::vector<PlaceSeen> places;
  for (const test::Row& row : rows)
    places.push_back({row.at(0), row.at(1), std::chrono::microseconds(std::stoll(row.at(2)))});
  return places;
}

// The server's clock, moved by a file that libfaketime reads.
class ServerClock {
 public:
  ServerClock(const Options& options, const std::string& directory) : file_(directory + "/clock") {
    if (options.clock == "none") return;
    if (const auto why = test::why_no_faketime(); !why.empty())
      throw std::runtime_error("--clock " + options.clock + ": " + why);
    // Back and forth between nothing and this, so that no two times read differ by more.
    furthest_ = largest_step(options);
    set(0ms);
    // Inherited by mariadbd alone: what clients start gets an environment of its own.
    ::setenv("LD_PRELOAD", test::faketime_library().c_str(), 1);
    ::setenv("FAKETIME_TIMESTAMP_FILE", file_.c_str(), 1);
    ::setenv("FAKETIME_CACHE_DURATION", "1", 1);
    ::setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
  }
  [[nodiscard]] bool can_step() const { return furthest_ > 0ms; }
  // No lease that was granted at another time is longer by this one.
  void step_to_the_end() const {
    if (can_step()) set(furthest_);
  }
  void step(Random& random) const {
    set(milliseconds(static_cast<long>(random() % 5) * furthest_.count() / 4));
  }

 private:
  // At once for every reader: a half-written time would be another step.
  void set(milliseconds offset) const {
    char text[32];
    std::snprintf(text, sizeof text, "%+.3f\n", static_cast<double>(offset.count()) / 1000);
    std::ofstream(file_ + ".new") << text;
    if (::rename((file_ + ".new").c_str(), file_.c_str()) != 0)
      throw std::runtime_error("cannot set " + file_);
  }
  std::string file_;
  milliseconds furthest_{0};
};

class ServerStage final : public Stage {
 public:
  ServerStage(const Options& options, const History& history)
      : options_(options),
        history_(history),
        clock_(options, options.directory),
        server_({"--innodb-flush-log-at-trx-commit=1"}),
        database_(server_.address()),
        looks_(server_.address(), "root", database_.name()) {
    for (int i = 0; i < k_proxies; ++i) proxies_.push_back(std::make_unique<test::Proxy>(server_.address()));
    database_.sql("CREATE TABLE campaign_store (lock_key VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL)");
    for (int i = 0; i < options_.keys; ++i)
      database_.sql("INSERT INTO campaign_store VALUES ('k" + std::to_string(i) + "', 0)");
    application_ = database_.application_account();
    database_.sql("GRANT SELECT, UPDATE ON campaign_store TO " + application_ + "@'%'");
  }

  [[nodiscard]] int groups() const override { return k_proxies; }
  [[nodiscard]] std::string url(int group) const override {
    return proxies_[static_cast<std::size_t>(group)]->url(database_.name());
  }
  [[nodiscard]] std::string application_url(int group) const override {
    return proxies_[static_cast<std::size_t>(group)]->url(database_.name(), application_);
  }
  [[nodiscard]] long long token(const std::string& key) override {
    return database_.number("SELECT token FROM dblock_lock WHERE slot=0 AND lock_key=" + test::sql_hex(key));
  }
  [[nodiscard]] long long holders(const std::string& key) override {
    const std::string where = " WHERE lock_value IS NOT NULL AND lock_key=" + test::sql_hex(key);
    return database_.number("SELECT COUNT(*) FROM dblock_lock" + where);
  }

  // A place that the lock's row does not tell of yet, common grants do not know of.
  [[nodiscard]] std::vector<PlaceSeen> places() override {
    return places_in(looks_.sql(
        "SELECT place.lock_key, owner_id, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), LEAST(seen_until, "
        "lease.line_until)) AS counts_for FROM dblock_waiter AS place JOIN dblock_lock AS lease ON "
        "lease.lock_key=place.lock_key AND lease.slot=0 WHERE place.mode='exclusive' AND line='fifo' HAVING "
        "counts_for>0"));
  }

  void heal() override { clock_.step_to_the_end(); }

  [[nodiscard]] std::optional<Trouble> trouble(Random& random) override {
    for (const auto& proxy : proxies_) proxy->forget_statements();
    std::vector<Kind> kinds;
    for (const Kind& kind : k_wheel) {
      if (wanted(options_, kind.name)) kinds.push_back(kind);
    }
    const auto draw = random();
    const auto length = some_time(random, options_.ttl / 6, options_.ttl * 3);
    const int group = static_cast<int>(random() % k_proxies);
    if (kinds.empty()) return std::nullopt;
    return (this->*kinds[draw % kinds.size()].make)(random, group, length);
  }

 private:
  struct Kind {
    const char* name;
    std::optional<Trouble> (ServerStage::*make)(Random&, int group, milliseconds length);
  };
  static const std::vector<Kind> k_wheel;

  void dark(Nanos from, int group) const {
    history_.add({.kind = "dark", .t = from, .until = now(), .group = group});
  }
  test::Proxy& proxy(int group) { return *proxies_[static_cast<std::size_t>(group)]; }

  // Nothing while this proxy or the server has trouble already. `over` is told since when.
  std::optional<Trouble> begin(const std::string& what, int where, milliseconds length,
                               const std::function<void()>& act, std::function<void(Nanos)> over) {
    if (!busy_.insert(where).second) return std::nullopt;
    act();
    return Trouble{what, length, [this, where, from = now(), over = std::move(over)] {
                     over(from);
                     busy_.erase(where);
                   }};
  }

  std::optional<Trouble> kill_server(Random&, int, milliseconds length) {
    return begin(
        "kill server", k_server, length / 4, [&] { server_.stop_hard(); },
        [this](Nanos from) {
          dark(from, k_everyone);
          server_.start();
        });
  }

  std::optional<Trouble> freeze_server(Random&, int, milliseconds length) {
    return begin(
        "freeze server", k_server, length, [&] { server_.freeze(); },
        [this](Nanos from) {
          dark(from, k_everyone);
          server_.thaw();
        });
  }

  std::optional<Trouble> step_clock(Random& random, int, milliseconds) {
    if (!clock_.can_step()) return std::nullopt;
    clock_.step(random);
    return Trouble{"step clock", 0ms, [] {}};
  }

  std::optional<Trouble> cut_connections(Random&, int group, milliseconds) {
    return begin(
        "cut connections", group, 0ms, [&] { proxy(group).cut_all(); }, [](Nanos) {});
  }

  std::optional<Trouble> refuse(Random&, int group, milliseconds length) {
    return begin(
        "refuse connections", group, length,
        [&] {
          proxy(group).refuse(true);
          proxy(group).cut_all();
        },
        [this, group](Nanos) { proxy(group).refuse(false); });
  }

  std::optional<Trouble> slow_down(Random& random, int group, milliseconds length) {
    const auto delay = some_time(random, 2ms, 200ms);
    return begin(
        "delays", group, length, [&] { proxy(group).delay(delay); },
        [this, group](Nanos) { proxy(group).delay(0ms); });
  }

  std::optional<Trouble> stall(Random&, int group, milliseconds length) {
    return begin(
        "stall", group, length, [&] { proxy(group).stall(); },
        [this, group](Nanos from) {
          dark(from, group);
          proxy(group).resume();
        });
  }

  // Whatever is asked about the locks next is done by the server and its answer thrown away …
  std::optional<Trouble> lose_replies(Random& random, int group, milliseconds length) {
    return lose(random, group, length, test::Proxy::Cut::before_reply, "lost replies");
  }
  // … or never gets there.
  std::optional<Trouble> lose_statements(Random& random, int group, milliseconds length) {
    return lose(random, group, length, test::Proxy::Cut::before_statement, "lost statements");
  }
  std::optional<Trouble> lose(Random& random, int group, milliseconds length, test::Proxy::Cut how,
                              const std::string& what) {
    const int times = 1 + static_cast<int>(random() % 3);
    const auto cut = [this, group, how](int count) { proxy(group).cut(how, changes_locks, count); };
    return begin(
        what, group, length / 3, [&] { cut(times); }, [cut](Nanos) { cut(0); });
  }

  // Replies are under way for most of a TTL when the server falls silent: whoever counts his lease from the
  // reply believes in it for too long.
  std::optional<Trouble> late_then_silent(Random&, int group, milliseconds) {
    if (busy_.contains(k_server) || !busy_.insert(group).second) return std::nullopt;
    proxy(group).delay(options_.ttl * 3 / 5);
    test::pause_for(options_.ttl / 6);
    return begin(
        "late replies then silence", k_server, options_.ttl * 3, [&] { server_.freeze(); },
        [this, group](Nanos from) {
          dark(from, k_everyone);
          proxy(group).delay(0ms);
          server_.thaw();
          busy_.erase(group);
        });
  }

  static constexpr int k_server = -1;    // among the busy
  static constexpr int k_everyone = -1;  // concerned by a dark
  static bool changes_locks(const std::string& statement) {
    return statement.find("UPDATE dblock_") != std::string::npos || statement.starts_with("CALL dblock_");
  }
  const Options& options_;
  const History& history_;
  ServerClock clock_;
  test::Server server_;
  test::ServerDatabase database_;
  test::Connection looks_;
  std::string application_;  // the account
  std::vector<std::unique_ptr<test::Proxy>> proxies_;
  std::set<int> busy_;  // proxies that have trouble already, or the server
};

// As often as they are named.
const std::vector<ServerStage::Kind> ServerStage::k_wheel{
    {"kill server", &ServerStage::kill_server},
    {"freeze server", &ServerStage::freeze_server},
    {"step clock", &ServerStage::step_clock},
    {"step clock", &ServerStage::step_clock},
    {"cut connections", &ServerStage::cut_connections},
    {"cut connections", &ServerStage::cut_connections},
    {"refuse connections", &ServerStage::refuse},
    {"delays", &ServerStage::slow_down},
    {"stall", &ServerStage::stall},
    {"stall", &ServerStage::stall},
    {"lost replies", &ServerStage::lose_replies},
    {"lost replies", &ServerStage::lose_replies},
    {"lost statements", &ServerStage::lose_statements},
    {"late replies then silence", &ServerStage::late_then_silent},
};

// Holds the file's write lock, once it has got it. On a thread of its own: who has the lock may be a process
// that only the others' caller will let go on.
class StuckWriter {
 public:
  StuckWriter(const std::string& file, const History& history)
      : thread_([this, file, &history] {
          hold(file, history);
          gone_ = true;
        }) {}
  void let_go() { over_ = true; }
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  void hold(const std::string& file, const History& history) const {
    try {
      const test::SqliteWriter writer(file);
      const Nanos from = now();
      while (!over_) test::pause_for(5ms);
      history.add({.kind = "dark", .t = from, .until = now()});
    } catch (const std::exception&) {  // the file was never free
    }
  }
  std::atomic<bool> over_ = false, gone_ = false;
  std::jthread thread_;
};

class LocalStage final : public Stage {
 public:
  LocalStage(const Options& options, const History& history) : options_(options), history_(history) {}
  [[nodiscard]] int groups() const override { return 1; }
  [[nodiscard]] std::string url(int) const override { return database_.url(); }
  [[nodiscard]] long long token(const std::string& key) override {
    return number("SELECT token FROM dblock_lock WHERE slot=0 AND lock_key=CAST(" + test::sql_hex(key) +
                  " AS TEXT)");
  }
  [[nodiscard]] long long holders(const std::string& key) override {
    const std::string where =
        " WHERE lock_value IS NOT NULL AND lock_key=CAST(" + test::sql_hex(key) + " AS TEXT)";
    return number("SELECT COUNT(*) FROM dblock_lock" + where);
  }
  [[nodiscard]] std::vector<PlaceSeen> places() override {
    const std::string counts_for =
        "seen_until-" + std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count());
    return places_in(test::sqlite_sql(file(), "SELECT lock_key, owner_id, " + counts_for +
                                                  " FROM dblock_waiter WHERE mode='exclusive' AND "
                                                  "line='fifo' AND " +
                                                  counts_for + ">0"));
  }
  // Another writer that does not get to an end.
  [[nodiscard]] std::optional<Trouble> trouble(Random& random) override {
    if (!wanted(options_, "stuck writer") || (writer_ && !writer_->gone())) return std::nullopt;
    const auto length = some_time(random, options_.ttl / 6, options_.ttl * 2);
    writer_ = std::make_unique<StuckWriter>(file(), history_);
    return Trouble{"stuck writer", length, [this] { writer_->let_go(); }};
  }

 private:
  [[nodiscard]] std::string file() const { return database_.url().substr(std::string("sqlite:").size()); }
  [[nodiscard]] long long number(const std::string& query) const {
    const std::string text = test::sqlite_value(file(), query);
    return text.empty() || text == "NULL" ? 0 : std::stoll(text);
  }
  const Options& options_;
  const History& history_;
  const test::Database database_;
  std::unique_ptr<StuckWriter> writer_;
};

}  // namespace

bool wanted(const Options& options, const std::string& fault) {
  return options.faults.empty() || std::ranges::find(options.faults, fault) != options.faults.end();
}

milliseconds largest_step(const Options& options) {
  if (options.clock == "none") return milliseconds(0);
  return options.clock == "within" ? options.margin * 2 / 5 : options.margin * 3;
}

std::unique_ptr<Stage> make_stage(const Options& options, const History& history) {
  if (options.store == "mariadb") return std::make_unique<ServerStage>(options, history);
  ::setenv("DBLOCK_TEST_STORE", "sqlite", 1);
  return std::make_unique<LocalStage>(options, history);
}

}  // namespace dblock::campaign
