#include "cli/options/requests.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "cli/options/password.hpp"
#include "process/command.hpp"

namespace dblock::cli {

namespace {

using namespace std::chrono_literals;

constexpr Micros k_kept_ttl = 2min;  // run's default: with --while-pid a keeper renews the lease

// The word as a person would type it in a shell, with a URL's password masked.
std::string typed(std::string word) {
  mask_url_password(word.data());
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,@%+").find(c) != std::string_view::npos;
  });
  return plain ? word : shell_quote(word);
}

// The command line to suggest when --key is missing. The user typed `run KEY COMMAND`, as for flock, or
// `run COMMAND`; if the first word names a command, the key is taken to be missing.
std::string line_with_key(const Values& options) {
  const auto& words = options.parsed().words;
  const auto& job = options.parsed().job;
  if (job.empty()) return "dblock run --key KEY -- COMMAND [ARG...]";
  std::string line = "dblock";
  const auto before = words.size() - job.size();
  for (std::size_t i = 0; i < before; ++i) {
    if (i + 1 < before || words[i] != "--") line += " " + typed(words[i]);
  }
  const std::string& first = job.front();
  const bool alone = job.size() == 1 && !options.typed("command");
  const auto path = options.environment().get("PATH");
  const bool is_command = alone || first.starts_with('/') || first.starts_with('.') ||
                          process::find_command(first, path ? path->c_str() : nullptr);
  line += " --key " + (is_command ? std::string("KEY") : typed(first));
  // Does not repeat the command's arguments, which may hold a password.
  const auto rest = std::span(job).subspan(is_command ? 0 : 1);
  if (!rest.empty() && !rest.front().starts_with('-')) line += " --";
  for (std::size_t i = 0; i < rest.size(); ++i) {
    line += " " + typed(rest[i]);
    const bool is_option = rest[i].starts_with('-') && rest[i] != "-c";
    if (!is_option && i + 1 < rest.size()) return line + " ...";
  }
  return line;
}

// --any: the keys of a pool, in their order, each once.
Result<std::vector<lease::Key>> pool_keys(const Values& options) {
  if (options.find("key"))
    return fail(Errc::usage, "run: choose one of --key, a lock, and --any, a pool of locks");
  DBLOCK_TRY(const auto named, named_keys(options, "any"));
  std::vector<lease::Key> keys;
  for (const auto& key : named)
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  return keys;
}

// --key: the keys sorted and without repetitions, so that all runs take the same locks in the same order.
Result<std::vector<lease::Key>> several_keys(const Values& options) {
  DBLOCK_TRY(auto keys, named_keys(options));
  if (keys.empty())
    return fail(Errc::usage, "run needs --key KEY, the name of the lock; write: " + line_with_key(options));
  std::ranges::sort(keys);
  const auto repeated = std::ranges::unique(keys);
  keys.erase(repeated.begin(), repeated.end());
  return keys;
}

// --shared, --exclusive and --slots each choose a mode; the one of higher rank wins.
Result<lease::Sharing> sharing(const Values& options) {
  DBLOCK_TRY(const auto slots, options.get<std::uint32_t>("slots"));
  std::optional<std::pair<Rank, std::string>> chosen;
  lease::Sharing sharing;
  for (const auto* const name : {"shared", "exclusive", "slots"}) {
    const auto value = options.find(name);
    if (!value || value->rank == Rank::default_value) continue;
    const bool counts = std::string_view(name) == "slots";
    if (!counts) {
      DBLOCK_TRY(const bool on, options.get<bool>(name));
      if (!on) continue;
    }
    if (chosen && chosen->first == value->rank)
      return fail(Errc::usage, "choose one of " + chosen->second + " and " + value->label);
    if (chosen && chosen->first > value->rank) continue;
    chosen = {value->rank, value->label};
    sharing = {};
    if (std::string_view(name) == "shared") sharing.mode = lease::Mode::shared;
    if (counts && slots > 1) sharing = {lease::Mode::slot, slots};
  }
  return sharing;
}

Result<lease::Timing> timing(const Values& options, Micros ttl) {
  lease::TimingRequest request;
  request.ttl = ttl;
  DBLOCK_CHECK(options.read("heartbeat", request.heartbeat));
  DBLOCK_CHECK(options.read("kill-grace", request.kill_grace));
  DBLOCK_CHECK(options.read("margin", request.margin));
  return lease::make_timing(request);
}

// wait_policy() with --attempts, --backoff and --backoff-multiplier. With --attempts the wait has no time
// limit unless the user set one.
Result<lease::WaitPolicy> wait_or_retry(const Values& options) {
  DBLOCK_TRY(auto policy, wait_policy(options));
  lease::Retry retry;
  DBLOCK_CHECK(options.read("backoff", retry.first));
  DBLOCK_CHECK(options.read("backoff-multiplier", retry.growth));
  DBLOCK_CHECK(options.read("attempts", retry.attempts));
  if (!options.find("attempts")) {
    for (const auto* const name : {"backoff", "backoff-multiplier"}) {
      if (options.typed(name)) return options.find(name)->refuse("needs --attempts N, the number of tries");
    }
    return policy;
  }
  policy.retry = retry;
  const auto wait = options.find("wait");
  DBLOCK_TRY(const bool nonblock, options.get<bool>("nonblock"));
  if (!nonblock && (!wait || wait->rank == Rank::default_value)) policy.limit.reset();
  return policy;
}

Result<lease::Promises> promises(const Values& options) {
  lease::Promises promises;
  DBLOCK_CHECK(options.read("min-hold", promises.min_hold));
  DBLOCK_CHECK(options.read("keep-on-failure", promises.keep_on_failure));
  DBLOCK_TRY(const auto period, options.get<std::optional<Micros>>("once-per"));
  if (period) promises.once_per = lease::OncePer{*period};
  return promises;
}

Result<std::optional<app::WhilePid>> while_pid(const Values& options) {
  if (!options.find("while-pid")) {
    if (options.typed("lost-signal"))
      return fail(Errc::usage, "acquire: --lost-signal needs --while-pid PID");
    return std::nullopt;
  }
  app::WhilePid kept;
  DBLOCK_CHECK(options.read("while-pid", kept.pid));
  DBLOCK_CHECK(options.read("lost-signal", kept.lost_signal));
  return kept;
}

// The command of a hook. A dblock inside a hook (DBLOCK_EVENT is set) ignores hooks that were not typed, else
// hooks would start dblocks that start hooks without end. Refuses a signal's name for --on-lost: the user
// means acquire's --lost-signal.
Result<std::string> hook(const Values& options, std::string_view name) {
  const auto value = options.find(name);
  if (!value) return std::string();
  const bool typed = value->rank == Rank::flag;
  if (!typed && options.environment().get("DBLOCK_EVENT")) return std::string();
  if (name == "on-lost" && parse_signal(value->text)) {
    return value->refuse(quote_untrusted(value->text) +
                         " is a signal, as `acquire --lost-signal` takes; for `run` write a command");
  }
  return value->text;
}

// How long the job may run, and how long it is expected to run.
Result<void> take_runtimes(const Values& options, app::RunRequest& request) {
  DBLOCK_CHECK(options.read("stop-grace", request.stop_grace));
  DBLOCK_CHECK(options.read("max-runtime", request.max_runtime));
  if (request.max_runtime == Micros{0}) request.max_runtime.reset();  // as in timeout(1)
  DBLOCK_CHECK(options.read("expect", request.expect));
  if (request.expect == Micros{0}) request.expect.reset();
  DBLOCK_TRY(request.hooks.overdue, hook(options, "on-overdue"));
  if (request.expect || request.hooks.overdue.empty() || !options.typed("on-overdue")) return {};
  return options.find("on-overdue")->refuse("needs --expect D, how long the job should take at most");
}

// How the run behaves among others that want the same lock. What was not typed, and does not go with the
// rest, is left out: a nested dblock inherits the variables. REQUIRES: `request` has its keys, sharing and
// wait.
Result<void> take_manners(const Values& options, app::RunRequest& request) {
  DBLOCK_CHECK(options.read("line", request.line));
  DBLOCK_CHECK(options.read("replace", request.replaces));
  DBLOCK_CHECK(options.read("replaceable", request.replaceable));
  const bool one_key = request.further_keys.empty() && request.any.empty();
  const bool plain = one_key && request.sharing.mode == lease::Mode::exclusive;
  if (request.line != lease::Line::fifo && (!plain || request.wait.retry)) {
    if (options.typed("line"))
      return fail(Errc::usage,
                  "run: --line is for one exclusive lock that is waited for, without --attempts");
    request.line = lease::Line::fifo;
  }
  if (request.replaces && (!request.any.empty() || request.wait.retry)) {
    if (options.typed("replace"))
      return fail(Errc::usage, "run: --replace does not go with --any or --attempts");
    request.replaces = false;
  }
  // An older run must not replace a newer one.
  const auto line = options.find("line");
  const bool chosen = line && line->rank != Rank::default_value;
  if (request.replaces && plain && !chosen) request.line = lease::Line::newest;
  return {};
}

// A typed command overrides --command from the environment or a file. Both typed is an error.
Result<void> take_job(const Values& options, app::RunRequest& request) {
  const auto shell = options.find("command");
  if (!options.parsed().job.empty()) {
    if (shell && shell->rank == Rank::flag) {
      return fail(Errc::usage, "run: both --command and COMMAND are given; choose one");
    }
    request.command = options.parsed().job;
    return {};
  }
  if (!shell) return fail(Errc::usage, "run needs a command: dblock run --key KEY -- COMMAND [ARG...]");
  request.shell_command = shell->text;
  return {};
}

}  // namespace

Result<app::RunRequest> run_request(const Values& options) {
  const bool of_pool = options.find("any").has_value();
  DBLOCK_TRY(const auto keys, of_pool ? pool_keys(options) : several_keys(options));
  DBLOCK_TRY(const auto ttl, options.get<Micros>("ttl"));
  DBLOCK_TRY(const auto lengths, timing(options, ttl));
  DBLOCK_TRY(auto database, database_sources(options));
  app::RunRequest request{
      .database = std::move(database), .identity = identity(options), .key = keys.front(), .timing = lengths};
  request.held = options.environment().get("DBLOCK_HELD").value_or("");
  DBLOCK_TRY(const bool apart, options.get<bool>("no-reentrant"));
  request.reentrant = !apart;
  (of_pool ? request.any : request.further_keys).assign(keys.begin() + 1, keys.end());
  DBLOCK_TRY(request.sharing, sharing(options));
  if (request.sharing.mode == lease::Mode::slot && !request.further_keys.empty())
    return fail(Errc::usage, "run: --slots counts the holders of one lock; give one --key");
  DBLOCK_TRY(request.wait, wait_or_retry(options));
  DBLOCK_CHECK(take_starts(options, request));
  DBLOCK_CHECK(take_manners(options, request));
  DBLOCK_TRY(request.promises, promises(options));
  DBLOCK_CHECK(check_once_per(options, request));
  DBLOCK_CHECK(options.read("conflict-exit-code", request.conflict_exit_code));
  DBLOCK_CHECK(options.read("signal", request.first_signal));
  DBLOCK_CHECK(take_runtimes(options, request));
  DBLOCK_CHECK(options.read("with-parent", request.with_parent));
  DBLOCK_CHECK(options.read("leftovers", request.leftovers));
  DBLOCK_CHECK(options.read("warn-after", request.warn_after));
  DBLOCK_CHECK(options.read("record-args", request.record_args));
  DBLOCK_CHECK(options.read("status-file", request.status_file));
  DBLOCK_TRY(request.hooks.wait, hook(options, "on-wait"));
  DBLOCK_TRY(request.hooks.start, hook(options, "on-start"));
  DBLOCK_TRY(request.hooks.lost, hook(options, "on-lost"));
  DBLOCK_TRY(request.hooks.conflict, hook(options, "on-conflict"));
  DBLOCK_TRY(request.hooks.end, hook(options, "on-end"));
  DBLOCK_CHECK(take_job(options, request));
  return request;
}

Result<app::AcquireRequest> acquire_request(const Values& options) {
  DBLOCK_TRY(auto key, only_key(options, "acquire"));
  DBLOCK_TRY(const auto ttl, options.get<std::optional<Micros>>("ttl"));
  DBLOCK_TRY(const auto kept, while_pid(options));
  if (!ttl && !kept) {
    return fail(Errc::usage,
                "acquire needs --ttl D, how long the script takes, or --while-pid PID, the process until "
                "whose end the lease is renewed (a script's own is $$)");
  }
  DBLOCK_TRY(const auto lengths, timing(options, ttl.value_or(k_kept_ttl)));
  DBLOCK_TRY(auto database, database_sources(options));
  app::AcquireRequest request{.database = std::move(database),
                              .identity = identity(options),
                              .key = std::move(key),
                              .timing = lengths};
  request.while_pid = kept;
  DBLOCK_TRY(request.sharing, sharing(options));
  DBLOCK_TRY(request.wait, wait_or_retry(options));
  DBLOCK_TRY(request.promises, promises(options));
  DBLOCK_CHECK(options.read("warn-after", request.warn_after));
  return request;
}

}  // namespace dblock::cli
