// No setting of the server decides anything: every variable of a session, set to every kind of value by
// init_connect before dblock's first statement, leaves exclusion, renewal and release what they are.
#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/mariadb_store.hpp"
#include "contract/store_fixture.hpp"
#include "support/sweep.hpp"

namespace dblock::contract {
namespace {

using test::Connection;
using test::Server;

// Both servers take small numbers for the values of an enumeration, too, and powers of two for each member of
// a set (sql_mode, optimizer_switch).
std::vector<std::string> candidates(const std::string& value) {
  std::vector<std::string> all{"0", "1", "2", "3", "4", "5", "16777216", "''"};
  const bool is_set = value.find(',') != std::string::npos;
  for (int bit = 3; is_set && bit < 48; ++bit) all.push_back(std::to_string(1LL << bit));
  return all;
}

// What the server makes of values for its variables.
class Probe {
 public:
  explicit Probe(test::ServerAddress server) : server_(std::move(server)) {}

  // The different values that a session can have, each as the text that sets it.
  std::vector<std::string> values_of(const std::string& variable, const std::string& now) {
    std::vector<std::string> seen, all;
    no_session_has_its_own_ = false;
    for (const auto& value : candidates(now)) {
      const auto has = tried(variable, value);
      if (no_session_has_its_own_) break;
      if (!has || std::ranges::find(seen, *has) != seen.end()) continue;
      seen.push_back(*has);
      all.push_back(value);
    }
    return all;
  }

 private:
  // The value that a session has afterwards; nothing where the server refuses.
  std::optional<std::string> tried(const std::string& variable, const std::string& value) {
    if (!session_) session_.emplace(server_);
    try {
      session_->sql("SET SESSION " + variable + "=" + value);
    } catch (const test::SqlError& refused) {
      no_session_has_its_own_ = refused.number == k_global_variable || refused.number == k_read_only_variable;
      return std::nullopt;  // the session is as it was
    }
    auto changed = std::exchange(session_, std::nullopt);
    try {
      const auto rows = changed->sql("SHOW SESSION VARIABLES LIKE '" + variable + "'");
      return rows.empty() ? value : rows.front().at(1);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  static constexpr unsigned k_global_variable = 1229, k_read_only_variable = 1238;
  test::ServerAddress server_;
  std::optional<Connection> session_;
  bool no_session_has_its_own_ = false;
};

// Every statement that changes a session so that its variable has another value than before.
std::vector<std::string> settings(const Server& server) {
  std::vector<std::string> all{"BEGIN",
                               "START TRANSACTION READ ONLY",
                               "SET TRANSACTION READ ONLY",
                               "SET SESSION TRANSACTION READ ONLY",
                               "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                               "SET autocommit=0",
                               "SET @@timestamp=1"};
  Probe probe(server.address());
  for (const auto& row : Connection(server.address()).sql("SHOW SESSION VARIABLES")) {
    const std::string& variable = row.at(0);
    for (const auto& value : probe.values_of(variable, row.at(1)))
      all.push_back("SET SESSION " + variable + "=" + value);
  }
  return all;
}

struct Pair {
  LeaseRequest first;
  LeaseRequest in_its_way;
  bool second_place = false;  // `first` gets the second place, whose neighbour is free again
};

std::vector<Pair> pairs(const std::string& name) {
  const auto with = [&](const char* suffix, Sharing sharing, const char* owner) {
    auto request = asks(name + suffix, owner);
    request.sharing = sharing;
    return request;
  };
  const auto also = [&](LeaseRequest request) {
    request.further_keys = {key(name + "-other")};
    return request;
  };
  const Sharing alone, reader{Mode::shared, 1}, slot{Mode::slot, 1};
  return {{with("-alone", alone, "a"), with("-alone", alone, "b")},
          {with("-reader", reader, "a"), with("-reader", alone, "b")},
          {with("-reader", reader, "a"), with("-reader", alone, "b"), true},
          {with("-writer", alone, "a"), with("-writer", reader, "b")},
          {with("-slot", slot, "a"), with("-slot", slot, "b")},
          {also(with("-one", alone, "a")), with("-other", alone, "b")}};
}

class Trial {
 public:
  Trial(MariadbUnderTest& under_test, const std::string& name)
      : under_test_(under_test), one_(under_test.open()), other_(under_test.open()), pairs_(pairs(name)) {}

  // What is wrong; nothing where all is well or dblock has refused the server.
  std::string go() {
    for (const auto& pair : pairs_) {
      if (auto wrong = judge(pair); !wrong.empty()) return pair.first.key.bytes() + ": " + wrong;
    }
    return {};
  }
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  std::string judge(const Pair& pair) {
    std::optional<Lease> neighbour;
    if (pair.second_place) {
      auto request = pair.first;
      request.owner = {"neighbour"};
      const auto beside = other_->try_acquire(request);
      if (!beside) return refuse(beside.error());
      neighbour = std::get<Granted>(*beside).lease;
    }
    const auto granted = one_->try_acquire(pair.first);
    if (!granted) return refuse(granted.error());
    if (neighbour) {
      const auto left = other_->release(ref(*neighbour), Actor::holder, {});
      if (!left) return "the neighbour stays: " + left.error().message;
    }
    const auto* const lease = std::get_if<Granted>(&*granted);
    if (lease == nullptr) return "a free lock was not granted";
    if (holders(pair.first) != 1) return "granted, and not to be seen by others";
    const auto second = other_->try_acquire(pair.in_its_way);
    if (second && std::holds_alternative<Granted>(*second)) return "granted twice";
    const auto before = expiry(pair.first);
    const LeaseRef own = ref_to(lease->lease);
    const auto renewal = one_->renew(own, Actor::holder, 120s);
    if (!renewal || !renewed(*renewal)) return "not renewed";
    if (expiry(pair.first) <= before) return "renewed, and not to be seen by others";
    const auto freed = one_->release(own, Actor::holder, {});
    if (!freed || !released(*freed)) return "not released";
    if (holders(pair.first) != 0) return "released, and still held";
    return {};
  }
  std::string refuse(const Error& error) {
    refused_ = true;
    return error.code == Errc::internal ? error.message : "";
  }
  long long holders(const LeaseRequest& request) {
    const std::string key = test::sql_hex(request.key.bytes());
    return under_test_.database().number(
        "SELECT COUNT(*) FROM dblock_lock WHERE lock_value IS NOT NULL AND lock_key=" + key);
  }
  std::string expiry(const LeaseRequest& request) {
    const std::string key = test::sql_hex(request.key.bytes());
    return under_test_.database().value("SELECT MAX(expire_time) FROM dblock_lock WHERE lock_key=" + key);
  }

  MariadbUnderTest& under_test_;
  std::unique_ptr<LockBook> one_, other_;
  std::vector<Pair> pairs_;
  bool refused_ = false;
};

// Sessions of all accounts begin with what init_connect says, so that each server tries one setting at a
// time.
class Site {
 public:
  // What is wrong under this setting; nothing where all is well.
  std::string judge(const std::string& setting) {
    std::string quoted = setting;
    for (auto at = quoted.find('\''); at != std::string::npos; at = quoted.find('\'', at + 2))
      quoted.insert(at, 1, '\'');
    under_test_.database().sql("SET GLOBAL init_connect='" + quoted + "'");
    Trial trial(under_test_, "k" + std::to_string(++trials_));
    const auto wrong = trial.go();
    if (trial.refused()) ++refused_;
    return wrong.empty() ? wrong : setting + ": " + wrong;
  }
  [[nodiscard]] const Server& server() const { return own_; }
  [[nodiscard]] int trials() const { return trials_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  const Server own_;
  MariadbUnderTest under_test_{own_.address()};
  int trials_ = 0, refused_ = 0;
};

}  // namespace

TEST_CASE("mariadb: no variable of a session, whatever its value, lets two hold a lock or loses a renewal",
          "[sweep][safety]") {
  std::array<Site, 4> sites;
  const auto all = settings(sites[0].server());
  CHECK(all.size() > 300);
  std::atomic<std::size_t> next = 0;
  const auto swept = test::sweep(sites.size(), sites.size(), [&](std::size_t n) {
    test::Verdict verdict;
    for (std::size_t i = 0; (i = next++) < all.size();) {
      if (const auto wrong = sites.at(n).judge(all[i]); !wrong.empty()) verdict.wrong += wrong + "\n";
    }
    return verdict;
  });
  int refused = 0, tried = 0;
  for (const auto& site : sites) {
    refused += site.refused();
    tried += site.trials();
  }
  std::cout << tried << " settings tried, " << refused << " refused by the server or by dblock\n";
  INFO(test::summary(swept.failures));
  CHECK(swept.failures.empty());
  CHECK(tried == static_cast<int>(all.size()));
  CHECK(tried > 3 * refused);
}

}  // namespace dblock::contract
