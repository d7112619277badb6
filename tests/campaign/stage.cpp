#include "campaign/stage.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "campaign/nodes_stage.hpp"
#include "campaign/proxied_stage.hpp"
#include "support/local_file.hpp"
#include "support/privilege.hpp"
#include "support/proc_tree.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;

constexpr int k_proxies = 4;

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
    static_cast<void>(test::server_template());  // made by programs whose clock goes right
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

// Before the database on it.
struct OneServer {
  explicit OneServer(const Options& options) : clock(options, options.directory) {}
  ServerClock clock;
  test::Server server{{"--innodb-flush-log-at-trx-commit=1"}};
};

class ServerStage final : private OneServer, public ProxiedStage {
 public:
  ServerStage(const Options& options, const History& history)
      : OneServer(options), ProxiedStage(options, history, std::vector(k_proxies, server.address())) {
    const auto stepped = std::bind_front(&ServerStage::step_clock, this);
    add({{"kill server", std::bind_front(&ServerStage::kill_server, this)},
         {"freeze server", std::bind_front(&ServerStage::freeze_server, this)},
         {"step clock", stepped},
         {"step clock", stepped},
         {"late replies then silence", std::bind_front(&ServerStage::late_then_silent, this)}});
  }

  void heal() override { clock.step_to_the_end(); }

 private:
  std::optional<Trouble> kill_server(Random&, int, milliseconds length) {
    return begin(
        "kill server", k_server, length / 4, [&] { server.stop_hard(); },
        [this](Nanos from) {
          dark(from, k_everyone);
          server.start();
        });
  }

  std::optional<Trouble> freeze_server(Random&, int, milliseconds length) {
    return begin(
        "freeze server", k_server, length, [&] { server.freeze(); },
        [this](Nanos from) {
          dark(from, k_everyone);
          server.thaw();
        });
  }

  std::optional<Trouble> step_clock(Random& random, int, milliseconds) {
    if (!clock.can_step()) return std::nullopt;
    clock.step(random);
    return Trouble{"step clock", 0ms, [] {}};
  }

  // Replies are under way for most of a TTL when the server falls silent: whoever counts his lease from the
  // reply believes in it for too long.
  std::optional<Trouble> late_then_silent(Random&, int group, milliseconds) {
    if (busy_.contains(k_server) || !busy_.insert(group).second) return std::nullopt;
    proxy(group).delay(options().ttl * 3 / 5);
    test::pause_for(options().ttl / 6);
    return begin(
        "late replies then silence", k_server, options().ttl * 3, [&] { server.freeze(); },
        [this, group](Nanos from) {
          dark(from, k_everyone);
          proxy(group).delay(0ms);
          server.thaw();
          busy_.erase(group);
        });
  }
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
  if (options.store == "server") return std::make_unique<ServerStage>(options, history);
  if (options.store != "sqlite") return make_nodes_stage(options, history);
  ::setenv("DBLOCK_TEST_STORE", "sqlite", 1);
  return std::make_unique<LocalStage>(options, history);
}

}  // namespace dblock::campaign
