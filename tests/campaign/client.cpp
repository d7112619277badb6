#include "campaign/client.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/dblock.hpp"
#include "support/proc_tree.hpp"

namespace dblock::campaign {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

// For what may be held up by every fault there is, one after the other.
constexpr milliseconds k_patience = 90s;
// The client's own node may have been killed, and takes this long on a busy machine to be a member again.
constexpr milliseconds k_until_rejoined = 5min;
// Of what clients of a server do. Applications find most locks held, so this makes a third of the grants.
constexpr unsigned k_applications_percent = 35;
// Of what a client does that has a key of its own to pause.
constexpr unsigned k_pauses_percent = 15;
// Of the applications. Whoever takes that lock keeps all readers out, for long where it does not release.
constexpr unsigned k_writers_among_readers_percent = 10;
// Of the jobs. Where two must be at work before a third is refused, they must not be brief.
constexpr unsigned k_brief_percent = 60, k_brief_among_others_percent = 20;

std::string text_of(milliseconds time) {
  return std::to_string(time.count()) + "ms";
}

Nanos nanos(milliseconds time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

}  // namespace

std::vector<KeyUse> keys_of(const Options& options) {
  std::vector<KeyUse> keys;
  for (int i = 0; i < options.keys; ++i) keys.push_back({"k" + std::to_string(i)});
  if (keys.size() >= 4) {
    keys[keys.size() - 1].as = KeyUse::As::shared_or_exclusive;
    keys[keys.size() - 2].as = KeyUse::As::slots;
  }
  return keys;
}

Client::Client(World& world, int number, int group, const std::string& url, std::string application_url)
    : world_(world),
      number_(number),
      group_(group),
      random_(world.options.seed * 1000ULL + static_cast<unsigned>(number)),
      environment_(test::bare_environment(world.mark, {"DBLOCK_DB=" + url})),
      application_url_(std::move(application_url)) {}

void Client::play() {
  try {
    while (!world_.over) act();
  } catch (const std::exception& error) {
    world_.history.add({.kind = "late", .t = now(), .say = std::string("a client gave up: ") + error.what()});
  }
}

void Client::act() {
  if (own_key() != nullptr && chance(k_pauses_percent)) return pause(own_key()->key);
  if (!application_url_.empty() && chance(k_applications_percent)) return application();
  if (world_.shares() && chance(static_cast<unsigned>(world_.options.sharing))) return run_among_others();
  const auto draw = random_() % 100;
  if (draw < 33) return run("run", {"--key", some_exclusive_key()}, "exclusive", 0ms);
  if (draw < 51) return run("run --wait", {"--key", some_exclusive_key()}, "exclusive", up_to(4s));
  if (draw < 57) return run("run of several keys", some_exclusive_keys("--key"), "exclusive", up_to(4s));
  if (draw < 63) return run("run of a pool", some_exclusive_keys("--any"), "exclusive", up_to(4s));
  if (draw < 70) return run_in_a_line();
  if (draw < 84) return script();
  if (draw < 88) return use_old_lease();
  if (draw < 92) return revoke();
  if (draw < 94) return look("reap", {"reap"});
  return look("inspect", {"inspect", "--all", "--json"});
}

const KeyUse& Client::some_key(bool exclusive) {
  for (;;) {
    const KeyUse& use = world_.keys[random_() % world_.keys.size()];
    if ((use.as == KeyUse::As::exclusive) == exclusive) return use;
  }
}

std::string Client::some_key_for_an_application() {
  return chance(k_writers_among_readers_percent) ? world_.keys.back().key : some_exclusive_key();
}

Words Client::some_exclusive_keys(const std::string& option) {
  Words words;
  for (int i = 0; i < 3; ++i) words.insert(words.end(), {option, some_exclusive_key()});
  return words;
}

Words Client::terms() const {
  return {"--ttl", text_of(world_.options.ttl), "--margin", text_of(world_.options.margin)};
}

void Client::run_among_others() {
  const KeyUse& use = some_key(false);
  if (use.as == KeyUse::As::slots)
    return run("run --slots", {"--key", use.key, "--slots", std::to_string(k_slots)}, "slots", up_to(3s));
  if (chance(60)) return run("run --shared", {"--key", use.key, "--shared"}, "shared", up_to(3s));
  run("run among readers", {"--key", use.key}, "exclusive", up_to(3s));
}

void Client::run_in_a_line() {
  Words locks{"--key", some_exclusive_key(), "--line", chance(70) ? "newest" : "one"};
  if (chance(50)) locks.emplace_back("--replaceable");
  if (locks[3] == "newest" && chance(50)) locks.emplace_back("--replace");
  run("run --line " + locks[3], locks, "exclusive", up_to(4s));
}

int Client::invoke(const std::string& what, Event wants) {
  const int op = world_.next_op++;
  wants.kind = "invoke";
  wants.t = now();
  wants.ttl = nanos(world_.options.ttl);
  wants.op = op;
  wants.group = group_;
  wants.what = what;
  world_.history.add(wants);
  ++done_[what];
  return op;
}

std::optional<Outcome> Client::command(const Target& target, const Words& words, milliseconds limit) {
  Words environment = environment_;
  environment.push_back("DBLOCK_HOLDER=" +
                        holder_name(target.op));  // so that its place in a line tells the op
  return run_command(world_.targets, target, words, environment, limit);
}

void Client::finished(int op, const std::optional<Outcome>& outcome, bool alive) {
  if (!outcome) {
    world_.history.add({.kind = "late",
                        .t = now(),
                        .op = op,
                        .say = "op " + std::to_string(op) + " had not ended after " + text_of(k_patience)});
  }
  world_.history.add({.kind = "return",
                      .t = now(),
                      .op = op,
                      .code = outcome ? outcome->code : -SIGKILL,
                      .alive = alive,
                      .say = outcome ? test::last_line(outcome->err) : ""});
}

void Client::run(const std::string& kind, const Words& locks, const std::string& mode, milliseconds wait) {
  const int slots = mode == "slots" ? k_slots : 1;
  const int op = invoke(kind, {.slots = slots, .key = locks.at(1), .mode = mode});
  const bool brief = chance(mode == "exclusive" ? k_brief_percent : k_brief_among_others_percent);
  const milliseconds hold = brief ? up_to(60ms) : up_to(world_.options.hold);
  const std::string habit = chance(60) ? "plain" : (chance(40) ? "stubborn" : "family");
  Words words{"run"};
  words.insert(words.end(), locks.begin(), locks.end());
  const Words times = terms();
  words.insert(words.end(), times.begin(), times.end());
  words.insert(words.end(), {"--kill-grace", text_of(world_.options.ttl / 15)});
  if (wait > 0ms) words.insert(words.end(), {"--wait", text_of(wait)});
  const std::string job = std::string(DBLOCK_CAMPAIGN_JOB);
  words.insert(words.end(), {"--", job, world_.history.path(), world_.options.directory, std::to_string(op),
                             mode, std::to_string(slots), std::to_string(hold.count()), habit});
  const auto outcome =
      command({.op = op, .kind = Target::Kind::run, .sure_to_die = habit != "family"}, words, k_patience);
  LifeFile life = LifeFile::to_watch(world_.options.directory, op);
  const bool alive = !life.lock();
  finished(op, outcome, alive);
  if (alive) await_death(op);
  tell_last_sign(op, life);
}

void Client::tell_last_sign(int op, const LifeFile& life) const {
  if (const Nanos at = life.last_sign(); at > 0) {
    world_.history.add({.kind = "alive", .t = at, .op = op});
    world_.history.add({.kind = "dead", .t = now(), .op = op});
  }
  ::unlink(LifeFile::path(world_.options.directory, op).c_str());
}

void Client::application() {
  const std::string what = chance(40) ? "application" : "application that waits";
  const milliseconds wait = what == "application" ? 0ms : up_to(8s);
  const std::string key = some_key_for_an_application();
  const int op = invoke(what, {.key = key, .mode = "exclusive"});
  const milliseconds hold = chance(50) ? up_to(100ms) : up_to(world_.options.hold * 2);
  const auto& options = world_.options;
  const Words words{DBLOCK_CAMPAIGN_APPLICATION,
                    world_.history.path(),
                    options.directory,
                    std::to_string(op),
                    application_url_,
                    key,
                    std::to_string(options.ttl.count()),
                    std::to_string(options.margin.count()),
                    std::to_string(wait.count()),
                    std::to_string(hold.count()),
                    std::to_string(random_())};
  const auto outcome = run_program(world_.targets, {.op = op, .kind = Target::Kind::application}, words,
                                   environment_, k_patience);
  finished(op, outcome, false);
  tell_last_sign(op, LifeFile::to_watch(options.directory, op));
}

// Somebody is left who stops the job, or the kernel does.
void Client::await_death(int op) {
  LifeFile life = LifeFile::to_watch(world_.options.directory, op);
  const auto limit = world_.options.ttl + world_.options.margin + 10s * test::slowness();
  if (test::wait_until([&] { return life.lock(); }, limit)) return;
  world_.history.add({.kind = "late",
                      .t = now(),
                      .op = op,
                      .say = "the job of op " + std::to_string(op) + " outlived its run and its lease"});
}

// acquire, work, renew, release, as a script would; now and then it forgets to release.
void Client::script() {
  const std::string key = some_exclusive_key();
  const int op = invoke("acquire");
  const Nanos sent = now();
  Words words{"acquire", "--key", key, "--json"};
  const Words times = terms();
  words.insert(words.end(), times.begin(), times.end());
  if (chance(50)) words.insert(words.end(), {"--wait", text_of(up_to(3s))});
  const auto outcome = command({.op = op}, words, k_patience);
  finished(op, outcome, false);
  if (!outcome || outcome->code != 0) return;
  const Json lease = Json::parse(outcome->out);
  work_under({op, key, lease.at("owner"), lease.at("token")}, sent + nanos(world_.options.ttl));
}

// What it holds is told by an instant at which it held it for sure, so that a client who is held up claims
// nothing.
void Client::work_under(const ScriptLease& lease, Nanos deadline) {
  const Nanos begun = now();
  if (begun >= deadline) return;
  world_.history.add({.kind = "begin",
                      .t = begun,
                      .op = lease.op,
                      .token = lease.token,
                      .key = lease.key,
                      .mode = "exclusive"});
  const bool renews = chance(40);
  const auto length = chance(50) ? up_to(60ms) : up_to(world_.options.hold);
  const Nanos until = begun + nanos(length);
  for (Nanos time = begun; time < until && time < deadline && !world_.over; time = now()) {
    world_.history.add({.kind = "alive", .t = time, .op = lease.op});
    write_fenced(world_.options.directory, world_.history, lease.op, lease.key, lease.token);
    test::pause_for(100ms);
  }
  if (renews) use(lease, "renew");
  if (chance(70)) use(lease, "release");
  old_leases_.push_back(lease);
}

void Client::use(const ScriptLease& lease, const std::string& verb) {
  const Nanos sent = now();
  const auto outcome =
      command({.op = lease.op}, {verb, "--key", lease.key, "--owner", lease.owner}, k_patience);
  world_.history.add({.kind = "use",
                      .t = now(),
                      .from = sent,
                      .ttl = nanos(world_.options.ttl),
                      .op = lease.op,
                      .code = outcome ? outcome->code : -SIGKILL,
                      .token = lease.token,
                      .key = lease.key,
                      .verb = verb,
                      .say = outcome ? test::last_line(outcome->err) : ""});
  ++done_[verb];
}

void Client::use_old_lease() {
  if (old_leases_.empty()) return;
  if (old_leases_.size() > 8) old_leases_.erase(old_leases_.begin());
  ++done_["with an old lease"];
  use(old_leases_[random_() % old_leases_.size()], chance(60) ? "renew" : "release");
}

// Of whoever holds it now; he stops.
void Client::revoke() {
  const std::string key = some_exclusive_key();
  const auto seen = command({}, {"inspect", "--key", key, "--json"}, k_patience);
  if (!seen || seen->code != 0) return;
  const Json locks = Json::parse(seen->out).at("locks");
  if (locks.empty() || !locks.front().at("owner").is_string()) return;
  const long long token = locks.front().at("token");
  const Nanos sent = now();
  const auto outcome =
      command({}, {"release", "--key", key, "--force", "--token", std::to_string(token)}, k_patience);
  world_.history.add({.kind = "revoke",
                      .t = now(),
                      .from = sent,
                      .code = outcome ? outcome->code : -SIGKILL,
                      .token = token,
                      .key = key});
  ++done_["revoke"];
}

// Nobody else pauses this key, so nobody else ends a pause of it.
const KeyUse* Client::own_key() const {
  const auto place = static_cast<std::size_t>(number_);
  if (place >= world_.keys.size() || world_.keys[place].as != KeyUse::As::exclusive) return nullptr;
  return &world_.keys[place];
}

void Client::pause(const std::string& key) {
  const int op = invoke("pause");
  const auto paused = command({.op = op}, {"pause", "--key", key, "--for", "1h"}, k_patience);
  finished(op, paused, false);
  const Nanos from = now();
  test::pause_for(up_to(1500ms));
  if (paused && paused->code == 0)
    world_.history.add({.kind = "paused", .t = now(), .from = from, .key = key});
  const Nanos give_up = now() + nanos(k_until_rejoined);
  for (;;) {
    const auto resumed = command({}, {"resume", "--key", key}, k_patience);
    if (resumed && resumed->code == 0) return;
    test::pause_for(100ms);
    if (now() < give_up) continue;
    world_.history.add({.kind = "late", .t = now(), .say = key + " could not be resumed"});
    return;
  }
}

void Client::look(const std::string& kind, const Words& words) {
  const int op = invoke(kind);
  finished(op, command({.op = op}, words, k_patience), false);
}

}  // namespace dblock::campaign
