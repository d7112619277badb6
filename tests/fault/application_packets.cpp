// I5 for applications, exhaustively: an application takes, renews and releases a lock by dblock's procedures,
// and one packet of it is harmed: the connection is cut before or after the packet, the packet is done twice,
// or it arrives late. The application then repeats its call under the same owner id. There must be one grant
// with one token, and the lock must be free afterwards.
#include <atomic>
#include <iostream>
#include <mutex>

#include "support/application.hpp"
#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/proxy.hpp"
#include "support/sweep.hpp"

namespace dblock::test {
namespace {

constexpr LockTerms k_application_terms{20s, 1s};
constexpr std::size_t k_applications_at_once = 8;

// When a packet that the proxy has held back reaches the server.
enum class Delivery { none, while_held, under_another_holder, when_free };

const char* to_string(Delivery delivery) {
  switch (delivery) {
    case Delivery::none:
      return "";
    case Delivery::while_held:
      return " while the lock is held";
    case Delivery::under_another_holder:
      return " under another holder";
    case Delivery::when_free:
      return " when the lock is free";
  }
  return "";
}

// The lock as the application finds it.
enum class Found { without_row, free, expired };

// One application with its own key, from its first call to its last.
class Acquisition {
 public:
  Acquisition(std::string url, std::string key) : application_(url), key_(std::move(key)) {}

  void take() {
    taken_ = settle([&] { return application_.acquire(key_, owner_, k_application_terms); });
  }
  void renew() {
    renewed_ = settle([&] { return application_.renew(key_, owner_); });
  }
  void release() {
    released_ = settle([&] {
      auto answer = application_.release(key_, owner_);
      reply_lost_ = reply_lost_ || answer.outcome == "unknown";
      return answer;
    });
    application_.disconnect();
  }
  // What is wrong with the answers. After a lost reply the release may answer that there is no lease any
  // more.
  [[nodiscard]] std::string fault(bool release_done_twice) const {
    if (taken_.outcome != "granted") return "; acquire: " + taken_.outcome;
    if (renewed_.outcome != "renewed" || renewed_.token != taken_.token)
      return "; renew: " + renewed_.outcome + ", token " + std::to_string(renewed_.token);
    if (released_.outcome == "released") return "";
    const bool repeated = reply_lost_ || release_done_twice;
    return repeated && released_.outcome == "lost" ? "" : "; release: " + released_.outcome;
  }
  [[nodiscard]] const std::string& owner() const { return owner_; }
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] long long token() const { return taken_.token; }

 private:
  static LockAnswer settle(const std::function<LockAnswer()>& call) {
    return until_settled(call, patience());
  }

  Application application_;
  std::string key_;
  std::string owner_ = new_owner_id("app");
  LockAnswer taken_, renewed_, released_;
  bool reply_lost_ = false;
};

class ApplicationSweep {
 public:
  ApplicationSweep(const char* name, Found found)
      : name_(name), found_(found), account_(database_.application_account()) {
    database_.sql(
        "CREATE TABLE granted (lock_key VARBINARY(255), owner VARBINARY(255), token BIGINT UNSIGNED)");
    database_.sql(
        "CREATE TRIGGER note_grant AFTER UPDATE ON dblock_lock FOR EACH ROW INSERT INTO granted "
        "SELECT NEW.lock_key, NEW.lock_value, NEW.token FROM dblock_schema WHERE NEW.token <> OLD.token "
        "LIMIT 1");
  }

  void go() {
    struct Case {
      Harm harm;
      Delivery delivery;
      std::size_t at;
    };
    const std::vector<Packet> packets = record();
    std::vector<Case> cases;
    for (const HarmedPacket& cut : cuts_of(packets, full_run()))
      cases.push_back({cut.harm, Delivery::none, cut.at});
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (!packets[i].from_client) continue;
      for (const auto delivery : {Delivery::while_held, Delivery::under_another_holder, Delivery::when_free})
        cases.push_back({Harm::late, delivery, i});
      if (packets[i].command) cases.push_back({Harm::twice, Delivery::none, i});
    }
    const Swept swept = sweep(cases.size(), k_applications_at_once, [&](std::size_t n) {
      return trial(cases[n].harm, cases[n].delivery, cases[n].at);
    });
    std::cout << name_ << ": " << packets.size() << " packets, " << swept << '\n';
    INFO(summary(swept.failures));
    CHECK(swept.failures.empty());
    CHECK(swept.struck > 0);
  }

 private:
  [[nodiscard]] std::string direct_url() const { return database_.tcp_url(account_); }

  template <typename Question>
  auto ask(Question question) {
    const std::lock_guard lock(mutex_);
    return question();
  }

  std::string new_key() {
    const std::string key = "k" + std::to_string(++keys_);
    if (found_ == Found::without_row) return key;
    Application last(direct_url());
    const std::string owner = new_owner_id("last");
    if (last.acquire(key, owner, k_application_terms).outcome != "granted")
      throw std::runtime_error("the lock cannot be prepared");
    if (found_ == Found::free) last.release(key, owner);
    const std::lock_guard lock(mutex_);
    if (found_ == Found::expired) database_.age_until_expired(key, 10s);
    return key;
  }

  std::vector<Packet> record() {
    Proxy proxy(database_.server());
    Acquisition whole(proxy.url(database_.name(), account_), new_key());
    whole.take();
    whole.renew();
    whole.release();
    REQUIRE(whole.fault(false) == "");
    REQUIRE(grants(whole) == 1);
    // The goodbye is a packet as well.
    REQUIRE(wait_until([&] { return proxy.packets().back().from_client; }));
    return proxy.packets();
  }

  Verdict trial(Harm harm, Delivery delivery, std::size_t at) {
    Proxy proxy(database_.server());
    proxy.harm(harm, at);
    Acquisition acquisition(proxy.url(database_.name(), account_), new_key());
    const auto deliver_if = [&](Delivery when) {
      if (delivery == when && proxy.struck()) proxy.deliver();
    };
    acquisition.take();
    deliver_if(Delivery::while_held);
    acquisition.renew();
    deliver_if(Delivery::while_held);
    acquisition.release();
    // The goodbye is on its way.
    static_cast<void>(wait_until([&] { return proxy.struck(); }));
    std::string wrong = acquisition.fault(harm == Harm::twice);
    wrong += another_holder(acquisition, [&] { deliver_if(Delivery::under_another_holder); });
    wrong += grants(acquisition) == 1 ? "" : "; " + std::to_string(grants(acquisition)) + " grants";
    deliver_if(Delivery::when_free);
    wrong += end_of(acquisition, delivery == Delivery::when_free);
    if (wrong.empty()) return {.struck = proxy.struck()};
    return {.wrong = std::string(name_) + ", packet " + std::to_string(at) + " " + test::to_string(harm) +
                     to_string(delivery) + wrong};
  }

  // The lock is free for another application, whose lease nothing that comes late may touch.
  template <typename Act>
  std::string another_holder(const Acquisition& before, Act act) {
    Application other(direct_url());
    const std::string owner = new_owner_id("other");
    const auto taken = other.acquire(before.key(), owner, k_application_terms);
    if (taken.outcome != "granted") return "; not free afterwards: " + taken.outcome;
    act();
    std::string wrong = taken.token > before.token() ? "" : "; the next token is not greater";
    const auto renewed = other.renew(before.key(), owner);
    if (renewed.outcome != "renewed" || renewed.token != taken.token) wrong += "; the next holder lost it";
    if (other.release(before.key(), owner).outcome != "released") wrong += "; the next holder cannot release";
    return wrong;
  }

  // A call of dblock_acquire that arrives when all is over is a new request, which the server cannot tell
  // from the old one: it may be granted, with a token of its own, and its owner can release it.
  std::string end_of(const Acquisition& acquisition, bool may_be_granted_again) {
    const auto owner = ask([&] { return database_.column(acquisition.key(), "lock_value"); });
    if (owner == "NULL") return "";
    if (!may_be_granted_again || owner != acquisition.owner()) return "; left to " + owner;
    const auto token = std::stoll(ask([&] { return database_.column(acquisition.key(), "token"); }));
    Application last(direct_url());
    if (last.release(acquisition.key(), owner).outcome != "released") return "; it cannot be released";
    return token > acquisition.token() && grants(acquisition) == 2 ? "" : "; granted again with an old token";
  }

  long long grants(const Acquisition& acquisition) {
    const std::string of_it =
        "lock_key=" + sql_hex(acquisition.key()) + " AND owner=" + sql_hex(acquisition.owner());
    return ask([&] { return database_.number("SELECT COUNT(*) FROM granted WHERE " + of_it); });
  }

  const char* name_;
  Found found_;
  ServerDatabase database_;
  std::string account_;
  std::mutex mutex_;
  std::atomic<int> keys_ = 0;
};

TEST_CASE("each packet of an application that takes a lock without a row harmed",
          "[server][sweep][safety][other-servers]") {
  ApplicationSweep("an application and a new lock", Found::without_row).go();
}
TEST_CASE("each packet of an application that takes a free lock harmed", "[server][sweep][safety]") {
  ApplicationSweep("an application and a free lock", Found::free).go();
}
TEST_CASE("each packet of an application that takes over an expired lease harmed",
          "[server][sweep][safety]") {
  ApplicationSweep("an application and an expired lease", Found::expired).go();
}

}  // namespace
}  // namespace dblock::test
