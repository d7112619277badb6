#include "campaign/proxied_stage.hpp"

#include <utility>

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;

bool changes_locks(const std::string& statement) {
  return statement.find("UPDATE dblock_") != std::string::npos || statement.starts_with("CALL dblock_");
}

}  // namespace

ProxiedStage::ProxiedStage(const Options& options, const History& history,
                           const std::vector<test::ServerAddress>& servers, bool all_ways,
                           std::vector<std::string> newest)
    : options_(options),
      history_(history),
      database_(servers.front()),
      looks_(servers.front(), "root", database_.name()),
      all_ways_(all_ways),
      newest_(std::move(newest)) {
  for (const auto& server : servers) proxies_.push_back(std::make_unique<test::Proxy>(server));
  database_.sql("CREATE TABLE campaign_store (lock_key VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL)");
  for (int i = 0; i < options_.keys; ++i)
    database_.sql("INSERT INTO campaign_store VALUES ('k" + std::to_string(i) + "', 0)");
  application_ = database_.application_account();
  database_.sql("GRANT SELECT, UPDATE ON campaign_store TO " + application_ + "@'%'");

  using Cut = test::Proxy::Cut;
  const auto cut = [this](Random&, int group, milliseconds) {
    return begin(
        "cut connections", group, 0ms, [this, group] { proxy(group).cut_all(); }, [](Nanos) {});
  };
  const auto stalled = std::bind_front(&ProxiedStage::stall, this);
  // Whatever is asked about the locks next is done by the server and its answer thrown away …
  const auto lose_replies = [this](Random& random, int group, milliseconds length) {
    return lose(random, group, length, Cut::before_reply, "lost replies");
  };
  // … or never gets there.
  const auto lose_statements = [this](Random& random, int group, milliseconds length) {
    return lose(random, group, length, Cut::before_statement, "lost statements");
  };
  add({{"cut connections", cut},
       {"cut connections", cut},
       {"refuse connections", std::bind_front(&ProxiedStage::refuse, this)},
       {"delays", std::bind_front(&ProxiedStage::slow_down, this)},
       {"stall", stalled},
       {"stall", stalled},
       {"lost replies", lose_replies},
       {"lost replies", lose_replies},
       {"lost statements", lose_statements}});
}

std::string ProxiedStage::url(int group) const {
  std::string all = proxy(group).url(database_.name());
  for (int other = 0; all_ways_ && other < groups(); ++other) {
    if (other != group) all = test::with_host(all, proxy(other).host());
  }
  return all;
}

void ProxiedStage::add(const std::vector<Kind>& kinds) {
  for (const Kind& kind : kinds) {
    if (wanted(options_, kind.name)) kinds_.push_back(kind);
  }
}

long long ProxiedStage::number(const std::string& query) {
  for (const auto& statement : newest_) database_.sql(statement);
  return database_.number(query);
}

long long ProxiedStage::token(const std::string& key) {
  return number("SELECT token FROM dblock_lock WHERE slot=0 AND lock_key=" + test::sql_hex(key));
}

long long ProxiedStage::holders(const std::string& key) {
  return number("SELECT COUNT(*) FROM dblock_lock WHERE lock_value IS NOT NULL AND lock_key=" +
                test::sql_hex(key));
}

// A place that the lock's row does not tell of yet, common grants do not know of.
std::vector<PlaceSeen> ProxiedStage::places() {
  for (const auto& statement : newest_) looks_.sql(statement);
  return places_in(looks_.sql(
      "SELECT place.lock_key, owner_id, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), LEAST(seen_until, "
      "lease.line_until)) AS counts_for FROM dblock_waiter AS place JOIN dblock_lock AS lease ON "
      "lease.lock_key=place.lock_key AND lease.slot=0 WHERE place.mode='exclusive' AND line='fifo' HAVING "
      "counts_for>0"));
}

std::optional<Trouble> ProxiedStage::trouble(Random& random) {
  for (const auto& each : proxies_) each->forget_statements();
  const auto draw = random();
  const auto length = some_time(random, options_.ttl / 6, options_.ttl * 3);
  const int group = static_cast<int>(random() % proxies_.size());
  if (kinds_.empty()) return std::nullopt;
  return kinds_[draw % kinds_.size()].make(random, group, length);
}

std::optional<Trouble> ProxiedStage::begin(const std::string& what, int where, milliseconds length,
                                           const std::function<void()>& act,
                                           std::function<void(Nanos)> over) {
  if (!busy_.insert(where).second) return std::nullopt;
  act();
  return Trouble{what, length, [this, where, from = now(), over = std::move(over)] {
                   over(from);
                   busy_.erase(where);
                 }};
}

std::optional<Trouble> ProxiedStage::refuse(Random&, int group, milliseconds length) {
  return begin(
      "refuse connections", group, length,
      [&] {
        proxy(group).refuse(true);
        proxy(group).cut_all();
      },
      [this, group](Nanos) { proxy(group).refuse(false); });
}

std::optional<Trouble> ProxiedStage::slow_down(Random& random, int group, milliseconds length) {
  const auto delay = some_time(random, 2ms, 200ms);
  return begin(
      "delays", group, length, [&] { proxy(group).delay(delay); },
      [this, group](Nanos) { proxy(group).delay(0ms); });
}

std::optional<Trouble> ProxiedStage::stall(Random&, int group, milliseconds length) {
  return begin(
      "stall", group, length, [&] { proxy(group).stall(); },
      [this, group](Nanos from) {
        dark(from, group);
        proxy(group).resume();
      });
}

std::optional<Trouble> ProxiedStage::lose(Random& random, int group, milliseconds length,
                                          test::Proxy::Cut how, const std::string& what) {
  const int times = 1 + static_cast<int>(random() % 3);
  const auto cut = [this, group, how](int count) { proxy(group).cut(how, changes_locks, count); };
  return begin(
      what, group, length / 3, [&] { cut(times); }, [cut](Nanos) { cut(0); });
}

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

}  // namespace dblock::campaign
