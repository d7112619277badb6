#include "cluster/workload.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace dblock::test {
namespace {

std::string said(const Member& member) {
  return "number " + std::to_string(member.number) + " at position " + std::to_string(member.position) +
         " under token " + std::to_string(member.token);
}

// Two additions under one token can have the same position when the first one's commit was still under way
// while the second one read, after the reply to that commit had been lost.
bool may_share_position(const Member& one, const Member& other, const Events& events) {
  return one.token == other.token &&
         !(events.acknowledged.contains(one.number) && events.acknowledged.contains(other.number));
}

constexpr milliseconds k_longest = 60s;

}  // namespace

milliseconds workload_time() {
  const char* const told = std::getenv("DBLOCK_TEST_WORKLOAD_SECONDS");
  return told != nullptr ? milliseconds(1000 * std::max(1, std::atoi(told))) : 15s;
}

std::string order_violation(const std::vector<Member>& members, const Events& events) {
  const Member* before = nullptr;
  for (const Member& member : members) {
    const long long last = before == nullptr ? 0 : before->position;
    if (member.position > last + 1) return "a number before this one is gone: " + said(member);
    if (before != nullptr && member.position == last && !may_share_position(*before, member, events))
      return "two at one position: " + said(*before) + ", " + said(member);
    if (before != nullptr && member.token < before->token)
      return "added under an old token: " + said(member) + ", after " + said(*before);
    before = &member;
  }
  return "";
}

std::string violation(const std::vector<Member>& members, const Events& events) {
  const std::string order = order_violation(members, events);
  if (!order.empty()) return order;
  std::set<long long> numbers;
  for (const Member& member : members) {
    if (!numbers.insert(member.number).second) return "twice in the set: " + said(member);
    const auto tried = events.tried.find(member.number);
    if (tried == events.tried.end() || tried->second != member.token)
      return "nobody added so: " + said(member);
    if (events.undone.contains(member.number)) return "undone and in the set: " + said(member);
    if (!events.granted.contains(member.token))
      return "added under a token that nobody was granted: " + said(member);
  }
  for (const long long number : events.acknowledged) {
    if (!numbers.contains(number)) return "acknowledged and not in the set: number " + std::to_string(number);
  }
  return "";
}

Workload::Workload(ServerDatabase& database, std::vector<ServerAddress> servers, const Manners& manners)
    : database_(database),
      servers_(std::move(servers)),
      manners_(manners),
      user_(database.application_account()),
      seed_(chosen_seed()),
      random_(seed_),
      writers_(k_writers) {
  database.sql(
      "CREATE TABLE member (number BIGINT PRIMARY KEY, position BIGINT NOT NULL, token BIGINT NOT NULL, "
      "KEY (position))");
  database.sql("GRANT SELECT, INSERT ON " + database.name() + ".member TO " + user_ + "@'%'");
  database.sql("GRANT SELECT ON " + database.name() + ".dblock_lock TO " + user_ + "@'%'");
  // Every server has the table and the account before it is asked.
  for (const auto& server : servers_) {
    const bool there = wait_until([&] {
      try {
        return Connection(server, user_, database_.name()).sql("SELECT * FROM member").empty();
      } catch (const SqlError&) {
        return false;
      }
    });
    if (!there) throw std::runtime_error("a server does not have the table");
  }
  for (auto& writer : writers_) begin(writer);
}

void Workload::begin(Running& writer) {
  writer.log = directory_.file(std::to_string(++begun_));
  logs_.push_back(writer.log);
  Spawn spec{.argv = {DBLOCK_SET_WRITER, writer.log, std::to_string(begun_), std::to_string(random_()),
                      database_.name(), user_, std::to_string(manners_.margin.count()),
                      std::to_string(manners_.lapses)},
             .ends_with_test = true};
  for (const auto& server : servers_) spec.argv.push_back(server.socket);
  writer.process = std::make_unique<Process>(spec);
}

void Workload::read(const std::string& log) {
  std::ifstream in(log);
  auto& from = read_[log];
  in.seekg(static_cast<std::streamoff>(from));
  std::ostringstream rest;
  rest << in.rdbuf();
  std::string text = rest.str();
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  from += text.size();
  std::istringstream words(text);
  std::string event;
  for (long long number = 0, token = 0; words >> event >> number >> token;) {
    if (event == "tried") events_.tried.emplace(number, token);
    if (event == "acknowledged") events_.acknowledged.insert(number);
    if (event == "took_over") ++events_.takeovers;
    if (event == "released") ++events_.released;
    if (event == "lapsed") ++events_.lapsed;
    if (event == "refused") ++events_.refused;
    if (event == "undone") events_.undone.insert(number);
    if (event.starts_with("un") && event.find('_') != std::string::npos) ++events_.errors[event];
    if (event != "granted" && event != "took_over") continue;
    events_.granted.insert(token);
    if (token < events_.newest_token) continue;
    events_.newest_token = token;
    events_.newest_log = log;
    events_.newest_server = static_cast<std::size_t>(number);
  }
}

const Events& Workload::events() {
  for (const auto& log : logs_) read(log);
  return events_;
}

std::vector<Member> Workload::members(std::size_t server) const {
  Connection session(servers_.at(server), "root", database_.name());
  std::vector<Member> found;
  for (const auto& row :
       session.sql("SELECT number, position, token FROM member ORDER BY position, token, number"))
    found.push_back({std::stoll(row.at(0)), std::stoll(row.at(1)), std::stoll(row.at(2))});
  return found;
}

Workload::Running* Workload::holder() {
  const auto& newest = events().newest_log;
  const auto found = std::ranges::find_if(writers_, [&](const auto& writer) { return writer.log == newest; });
  return found == writers_.end() ? nullptr : &*found;
}

void Workload::kill_holder() {
  Running* const victim = holder();
  if (victim == nullptr) return;
  victim->process->signal(SIGKILL);
  victim->process->wait();
  begin(*victim);
  ++happened_["writers killed"];
}

// Until somebody else has taken its lock over, where that is possible: it may keep the fence locked.
void Workload::freeze_holder() {
  Running* const victim = holder();
  if (victim == nullptr || !victim->process->freeze()) return;
  const auto grants = events().granted.size();
  static_cast<void>(wait_until([&] { return events().granted.size() > grants + 1; }, 3 * k_ttl));
  victim->process->signal(SIGCONT);
  ++happened_["writers frozen"];
}

void Workload::await_additions() {
  const auto before = events().acknowledged.size();
  const bool added = wait_until(
      [&] {
        for (auto& writer : writers_) {
          if (!writer.process->running())
            throw std::runtime_error("a writer has ended: " + writer.process->err());
        }
        return events().acknowledged.size() > before + 10;
      },
      60s);
  if (!added) throw std::runtime_error("nothing is added to the set any more; " + summary());
}

void Workload::suffer(const std::vector<Fault>& faults) {
  const auto begin = std::chrono::steady_clock::now();
  const auto goes_on = [&] {
    const auto passed = std::chrono::steady_clock::now() - begin;
    return passed < workload_time() || (!is_enough(events()) && passed < k_longest);
  };
  for (std::size_t i = 0; i < faults.size() || goes_on(); ++i) {
    await_additions();
    i % 2 == 0 ? freeze_holder() : kill_holder();
    await_additions();
    const Fault& fault = faults.at(i % faults.size());
    fault.happen();
    ++happened_[fault.name];
  }
  await_additions();
}

// On a cluster of nodes one comes in 35 seconds on average, at any moment as likely as at another: in four
// minutes all but one time in a thousand.
std::string Workload::await_violation(const std::function<void()>& meanwhile) {
  std::string found;
  const bool came = wait_until(
      [&] {
        meanwhile();
        pause_for(100ms);  // not so often that it slows the writers
        const auto so_far = members(0);
        found = order_violation(so_far, events());
        return !found.empty();
      },
      240s);
  return came ? found : "";
}

// What is applied of another node's grant waits for the table.
void Workload::hold_back() {
  const auto grants = events().granted.size();
  if (!wait_until([&] { return events().granted.size() > grants; })) return;
  Connection root(servers_.at(events().newest_server), "root", database_.name());
  root.sql("LOCK TABLES dblock_lock READ");
  pause_for(5 * k_ttl / 2);  // the longest lapse of set_writer.cpp
  root.sql("UNLOCK TABLES");
}

void Workload::stop() {
  for (auto& writer : writers_) writer.process->signal(SIGTERM);
  for (auto& writer : writers_) writer.process->wait(60s);
}

void Workload::cut_connections(std::size_t server) {
  Connection root(servers_.at(server));
  for (const auto& row :
       root.sql("SELECT id FROM information_schema.processlist WHERE user='" + user_ + "'")) {
    try {
      root.sql("KILL " + row.at(0));
    } catch (const SqlError&) {
      // It has ended by itself.
    }
  }
}

std::string Workload::summary() {
  const Events& all = events();
  std::ostringstream text;
  text << all.granted.size() << " grants, " << all.takeovers << " takeovers, " << all.released
       << " released, " << all.lapsed << " lapsed on purpose, " << all.tried.size() << " additions tried, "
       << all.acknowledged.size() << " acknowledged, " << all.refused << " refused, " << all.undone.size()
       << " undone";
  for (const auto& [error, count] : all.errors) text << ", " << count << " " << error;
  for (const auto& [name, count] : happened_) text << ", " << count << " " << name;
  text << ", seed " << seed_;
  return text.str();
}

}  // namespace dblock::test
