#include "cli/options/option_spec.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace dblock::cli {
namespace {

constexpr Scope k_run = scope_of(Subcommand::run);
constexpr Scope k_acquire = scope_of(Subcommand::acquire);
constexpr Scope k_renew = scope_of(Subcommand::renew);
constexpr Scope k_release = scope_of(Subcommand::release);
constexpr Scope k_pause = scope_of(Subcommand::pause);
constexpr Scope k_resume = scope_of(Subcommand::resume);
constexpr Scope k_inspect = scope_of(Subcommand::inspect);
constexpr Scope k_wait = scope_of(Subcommand::wait);
constexpr Scope k_history = scope_of(Subcommand::history);
constexpr Scope k_reap = scope_of(Subcommand::reap);
constexpr Scope k_migrate = scope_of(Subcommand::migrate);
constexpr Scope k_keys = scope_of(Subcommand::keys);

// A page of --help has at most 50 lines of 80 columns, the one of `run` 100: what most people need leads it.
// A help text gets 50 columns of a line, with its default.
// clang-format off
// name, letter, value, default_value, default_note, help, group, scope, repeats, leading_place
constexpr auto k_options = std::to_array<OptionSpec>({
    {"db", 0, takes::text("URL"), "", "", "mysql://[USER[:PASS]@]HOST[:PORT]/DATABASE\nor sqlite:PATH", "Database", k_global},
    {"local", 0, takes::nothing, "", "", "no server: the locks guard this user's jobs\non this host only", "Database", k_global},
    {"defaults-file", 0, takes::file, "", "", "MariaDB option file instead of the usual ones", "Database", k_global},
    {"config", 0, takes::file, "", "", "defaults for any option, instead of\n/etc/dblock.conf and ~/.config/dblock.conf", "Database", k_global},
    {"json", 0, takes::nothing, "", "", "results on stdout as JSON", "Output", k_global},
    {"quiet", 'q', takes::nothing, "", "", "errors only on stderr", "Output", k_global},
    {"verbose", 'v', takes::nothing, "", "", "say more on stderr", "Output", k_global},
    {"log-format", 0, takes::choice("SHAPE", "text json"), "text", "", "shape of stderr lines: text or json", "Output", k_global},
    {"color", 0, takes::choice("WHEN", "auto always never"), "auto", "", "auto, always or never", "Output", k_global},
    {"version", 'V', takes::nothing, "", "", "show the version", "Output", k_global},
    {"help", 'h', takes::nothing, "", "", "show this help; also after a subcommand", "Output", k_global},

    {"key", 'k', takes::key, "", "required", "name of the lock; several: all or none", "Lock", k_run, true, 1},
    {"any", 0, takes::key, "", "", "instead: the first of these that is free, in\ntheir order; DBLOCK_KEY tells the job which", "Lock", k_run, true},
    {"key", 'k', takes::key, "", "required", "name of the lock", "Lock", k_acquire},
    {"ttl", 0, takes::duration, "2m", "", "lease length, 1s to 30d", "Lock", k_run},
    {"ttl", 0, takes::duration, "", "2m with --while-pid", "lease, 1s to 30d", "Lock", k_acquire},
    {"while-pid", 0, takes::pid, "", "", "renew until process PID ends, then release", "Lock", k_acquire},
    {"lost-signal", 0, takes::signal("SIGNAL"), "TERM", "", "sent to PID if the lease is lost", "Lock", k_acquire},
    {"heartbeat", 0, takes::duration, "", "TTL/6 up to 15s", "renewal interval", "Lock", k_run},
    {"margin", 0, takes::duration, "", "TTL/10 up to 3s", "extra wait at a takeover", "Lock", k_run | k_acquire},
    {"min-hold", 0, takes::hold, "0", "", "hold at least D, even after the job", "Lock", k_run | k_acquire, false, 8},
    {"keep-on-failure", 0, takes::hold, "0", "", "after a failed job keep the lock for D", "Lock", k_run},
    {"once-per", 0, takes::period, "", "", "skip (exit 0) if a success began < 0.9 D ago", "Lock", k_run, false, 7},
    {"slots", 0, takes::count("N", 1, 100'000), "1", "", "up to N holders at a time", "Lock", k_run | k_acquire},
    {"shared", 's', takes::nothing, "", "", "a reader: excludes only exclusive holders", "Lock", k_run | k_acquire},
    {"exclusive", 'x', takes::nothing, "", "", "excludes everybody; this is the default", "Lock", k_run},
    {"no-reentrant", 0, takes::nothing, "", "", "do not join an outer run's lock", "Lock", k_run},
    {"wait", 'w', takes::wait, "0", "", "how long to wait for the lock", "Waiting", k_run | k_acquire, false, 2},
    {"nonblock", 'n', takes::nothing, "", "", "try once: --wait 0", "Waiting", k_run, false, 3},
    {"attempts", 0, takes::count("N", 1, 1'000'000'000), "", "off", "at most N tries, no place in line", "Waiting", k_run | k_acquire},
    {"backoff", 0, takes::period, "1s", "", "first pause between tries", "Waiting", k_run | k_acquire},
    {"backoff-multiplier", 0, takes::factor, "1.5", "", "each next pause X times longer", "Waiting", k_run | k_acquire},
    {"splay", 0, takes::splay, "0", "", "before the first try wait up to D, each host\nits own time, the same each day", "Waiting", k_run},
    {"line", 0, takes::choice("HOW", "fifo one newest"), "fifo", "", "who may wait: fifo, all; one, a single run;\nnewest, the run that came last", "Waiting", k_run},
    {"replace", 0, takes::nothing, "", "", "revoke a --replaceable holder instead of\nwaiting for its end", "Waiting", k_run},
    {"replaceable", 0, takes::nothing, "", "", "a --replace run may revoke this one", "Waiting", k_run},
    {"conflict-exit-code", 'E', takes::count("N", 0, 255), "75", "", "exit code if the lock is held", "Waiting", k_run, false, 4},
    {"command", 'c', takes::text("STRING"), "", "", "run /bin/sh -c STRING", "Job", k_run, false, 5},
    {"max-runtime", 0, takes::limit, "", "none", "stop the job after D: exit 124", "Job", k_run, false, 6},
    {"retry", 0, takes::count("N", 0, 1'000'000'000), "0", "", "start a failed job again up to N times", "Job", k_run},
    {"retry-delay", 0, takes::duration, "1s", "", "first pause; each next one doubles", "Job", k_run},
    {"retry-max-delay", 0, takes::period, "10m", "", "longest pause", "Job", k_run},
    {"expect", 0, takes::limit, "", "none", "warn when the job runs longer", "Job", k_run},
    {"signal", 0, takes::signal("NAME"), "TERM", "", "first signal to stop the job", "Job", k_run},
    {"kill-grace", 0, takes::duration, "", "TTL/6 up to 4s", "time left before SIGKILL", "Job", k_run},
    {"stop-grace", 0, takes::duration, "", "", "the same where dblock is asked to stop", "Job", k_run},
    {"leftovers", 0, takes::choice("MODE", "auto wait kill leave"), "auto", "", "orphans: auto, wait, kill or leave", "Job", k_run},
    {"with-parent", 0, takes::nothing, "", "", "stop the job when dblock's parent ends", "Job", k_run, false, 9},
    {"note", 0, takes::text("TEXT"), "", "CI job URL", "label stored with the lease", "Reporting", k_run | k_acquire, false, 10},
    {"record-args", 0, takes::nothing, "", "", "store the job's arguments too", "Reporting", k_run},
    {"status-file", 0, takes::output_file, "", "", "write the outcome as a JSON document", "Reporting", k_run},
    {"on-wait", 0, takes::text("CMD"), "", "", "sh -c CMD once the wait begins", "Reporting", k_run},
    {"on-start", 0, takes::text("CMD"), "", "", "sh -c CMD once the job runs", "Reporting", k_run},
    {"on-lost", 0, takes::text("CMD"), "", "", "sh -c CMD when the lease is lost", "Reporting", k_run},
    {"on-conflict", 0, takes::text("CMD"), "", "", "sh -c CMD when dblock gives up on a held lock", "Reporting", k_run},
    {"on-overdue", 0, takes::text("CMD"), "", "", "sh -c CMD when the job outruns --expect", "Reporting", k_run},
    {"on-end", 0, takes::text("CMD"), "", "", "sh -c CMD when the run has ended", "Reporting", k_run},
    {"warn-after", 0, takes::duration, "3s", "", "warn when the database takes longer", "Reporting", k_run | k_acquire},
    {"format", 0, takes::choice("SHAPE", "owner shell"), "owner", "", "owner (the owner id) or shell\n(export lines for eval)", "Reporting", k_acquire},

    {"key", 'k', takes::key, "", "DBLOCK_KEY", "name of the lock", "Lock", k_renew | k_release},
    {"owner", 0, takes::text("ID"), "", "DBLOCK_OWNER", "what acquire printed", "Lock", k_renew | k_release},
    {"ttl", 0, takes::duration, "", "as stored", "new lease length, 1s to 30d", "Lock", k_renew},
    {"force", 0, takes::nothing, "", "", "show another's lease and how to revoke it", "Force", k_release},
    {"token", 0, takes::count("T"), "", "", "with --force: revoke this holder's lease", "Force", k_release},
    {"now", 0, takes::nothing, "", "", "with --token: free the lock at once", "Force", k_release},
    {"wait", 'w', takes::wait, "", "", "with --token: until it is free", "Force", k_release},

    {"key", 'k', takes::key, "", "", "this lock", "Locks", k_pause | k_resume},
    {"prefix", 0, takes::prefix, "", "", "the locks whose keys start with P; '': all", "Locks", k_pause},
    {"prefix", 0, takes::prefix, "", "", "end the pause that was made for this P", "Locks", k_resume},
    {"for", 0, takes::pause, "", "", "for this long", "Pause", k_pause},
    {"until", 0, takes::time, "", "", "until this time, as 2026-11-25T06:00:00Z", "Pause", k_pause},
    {"note", 0, takes::text("TEXT"), "", "CI job URL", "said to all who are refused", "Pause", k_pause},
    {"wait", 'w', takes::wait, "", "", "then wait until nobody holds these locks", "Pause", k_pause},

    {"key", 'k', takes::key, "", "all", "only this lock; may be repeated", "Selection", k_inspect, true},
    {"prefix", 0, takes::prefix, "", "", "only keys that start with P", "Selection", k_inspect | k_keys},
    {"all", 0, takes::nothing, "", "", "expired, cooling-down and free locks too", "Selection", k_inspect},
    {"format", 0, takes::choice("SHAPE", "table json csv prometheus html"), "table", "", "table, json, csv, prometheus\nor html (a page)", "Answer", k_inspect},
    {"watch", 0, takes::interval, "", "1s", "show it again every D; q ends it", "Answer", k_inspect},
    {"exit-code", 0, takes::nothing, "", "", "exit 75 if one of the --keys is not free now", "Answer", k_inspect},
    {"max-age", 0, takes::period, "", "", "exit 1 if a key had no success within D", "Answer", k_inspect},
    {"max-held", 0, takes::period, "", "", "exit 1 if a lock is held for longer than D", "Answer", k_inspect},
    {"max-failures", 0, takes::count("N", 1, 1'000'000'000), "", "", "exit 1 if N runs of a key failed in a row", "Answer", k_inspect},

    {"key", 'k', takes::key, "", "", "this lock; may be repeated", "Locks", k_wait, true},
    {"prefix", 0, takes::prefix, "", "", "all known locks whose keys start with P", "Locks", k_wait},
    {"success-within", 0, takes::period, "", "", "not until they are free, but until the last\nsuccess of each is younger than D", "Waiting", k_wait},
    {"timeout", 0, takes::wait, "forever", "", "exit 75 after D", "Waiting", k_wait},

    {"key", 'k', takes::key, "", "all", "only this lock; may be repeated", "Selection", k_history, true},
    {"prefix", 0, takes::prefix, "", "", "only keys that start with P", "Selection", k_history},
    {"since", 0, takes::period, "", "", "only runs that ended within D", "Selection", k_history},
    {"outcome", 0, takes::choice("O", "succeeded failed signalled timed_out lost released not_run abandoned"), "", "", "only runs that ended so: succeeded, failed,\nsignalled, timed_out, lost, released, not_run\nor abandoned", "Selection", k_history},
    {"limit", 0, takes::count("N", 1, 1'000'000), "", "100; html: 5000", "at most the last N", "Selection", k_history},
    {"format", 0, takes::choice("SHAPE", "table json csv html"), "table", "", "table, json, csv or html (a page\nwith a timeline)", "Answer", k_history},

    {"dry-run", 0, takes::nothing, "", "", "report, change nothing", "Reaping", k_reap},
    {"every", 0, takes::period, "", "once", "repeat until a signal comes", "Reaping", k_reap},
    {"forget-after", 0, takes::idle, "400d", "", "forget keys unused for longer", "Reaping", k_reap},
    {"forget-history", 0, takes::duration, "90d", "", "delete older records of history", "Reaping", k_reap},

    {"status", 0, takes::nothing, "", "", "show which migrations are applied, and\nwhich procedures can be called", "Schema", k_migrate},
    {"dry-run", 0, takes::nothing, "", "", "show the SQL that would be run", "Schema", k_migrate},
    {"print-grants", 0, takes::user, "", "", "show the GRANT statements USER needs", "Schema", k_migrate},
    {"applications", 0, takes::nothing, "", "", "with --print-grants: for applications, which\ncall the procedures of dblock-sql(7)", "Schema", k_migrate},
    {"history", 0, takes::choice("on|off", "on off"), "", "", "on: record runs that end; off: stop that, and\nkeep what is recorded", "Schema", k_migrate},
    {"try", 0, takes::nothing, "", "", "also take, renew, hand on and release locks\nof its own", "Checks", scope_of(Subcommand::doctor)},
});

constexpr auto k_subcommands = std::to_array<SubcommandSpec>({
    {Subcommand::run, "run", "run a command under a lock", "-k KEY [OPTIONS] [--] COMMAND [ARG...]",
     "  dblock run --key nightly-etl -- /opt/etl/nightly.sh --full\n"
     "  dblock run -k deploy-web --wait 10m --max-runtime 1h -c 'make deploy >log'\n",
     "Exit status: the job's own, or 75 held, 69 no database, 76 lease lost, others:\n"
     "see dblock-run(1). Recipes for cron, CI and systemd: dblock-cookbook(7).\n"},
    {Subcommand::acquire, "acquire", "take a lock for a script", "--key KEY (--while-pid PID [--ttl D] | --ttl D) [OPTIONS]",
     "  owner=$(dblock acquire --key backup --while-pid $$) && run-backup\n"
     "  lock=$(dblock acquire -k backup --ttl 9m --format shell) || exit; eval \"$lock\"\n"},
    {Subcommand::renew, "renew", "extend a lease that acquire took", "[--key KEY] [--owner ID] [--ttl D]",
     "  dblock renew --key backup --owner \"$owner\"\n"
     "  dblock renew --ttl 1h              # DBLOCK_KEY and DBLOCK_OWNER are set\n"},
    {Subcommand::release, "release", "release a lease, or revoke another's", "[-k KEY] [--owner ID | --force [--token T [--now | -w D]]]",
     "  dblock release --key backup --owner \"$owner\"\n"
     "  dblock release --key nightly-etl --force\n"},
    {Subcommand::pause, "pause", "grant no new locks for a while", "(-k KEY | --prefix P) (--for D | --until TIME) [OPTIONS]",
     "  dblock pause --prefix nightly- --for 2h --note 'new disks' --wait 30m\n"
     "  dblock pause --prefix '' --until 2026-11-25T06:00:00Z\n",
     "Jobs that run go on. `dblock resume` ends a pause, and it ends by itself.\n"},
    {Subcommand::resume, "resume", "end a pause before its time", "(-k KEY | --prefix P)",
     "  dblock resume --prefix nightly-\n"
     "  dblock resume --key nightly-etl\n",
     "Give the same --key or --prefix as to `dblock pause`.\n"},
    {Subcommand::inspect, "inspect", "show who holds what", "[OPTIONS]",
     "  dblock inspect --prefix deploy- --watch\n"
     "  dblock inspect --key nightly-etl --max-age 26h || page-someone\n"},
    {Subcommand::wait, "wait", "wait until locks are free or jobs succeeded", "(-k KEY | --prefix P) [--success-within D] [--timeout D]",
     "  dblock wait --key nightly-etl --success-within 12h --timeout 6h && ./report.sh\n"
     "  dblock wait --prefix deploy- --timeout 10m\n",
     "It takes no lock: by the time it returns, another may have taken one.\n"},
    {Subcommand::history, "history", "show the runs that have ended", "[OPTIONS]",
     "  dblock history --since 12h --format html >night.html\n"
     "  dblock history --json | jq '.runs[] | select(.outcome != \"succeeded\")'\n",
     "`dblock migrate --history on` starts the record.\n"},
    {Subcommand::reap, "reap", "clear up expired leases and keys long unused", "[OPTIONS]",
     "  dblock reap --dry-run\n"
     "  dblock reap --every 5m --forget-after 90d\n"},
    {Subcommand::migrate, "migrate", "create or update dblock's tables", "[OPTIONS]",
     "  dblock migrate --db mysql://admin@db1/locks\n"
     "  dblock migrate --print-grants 'jobs@%' | mariadb -h db1 -u admin -p\n",
     "The embedded store (--local, sqlite:PATH) creates and updates its tables itself.\n"},
    {Subcommand::doctor, "doctor", "tell whether this configuration deserves trust", "[--try] [--json]",
     "  dblock doctor --try\n"
     "  dblock doctor --json | jq -r '.checks[] | select(.level != \"ok\")'\n",
     "A line for each check: ok, warn or bad, and why. Exit status 78 when one is bad.\n"},
    {Subcommand::help, "help", "show the help of dblock or of a subcommand", "[SUBCOMMAND]", "", "", true},
    {Subcommand::version, "version", "show the version", "", "", "", true},
    {Subcommand::completion, "completion", "print a shell's completion", "bash|zsh|fish", "", "", true},
    {Subcommand::keys, "__keys", "known keys, one a line, for completions", "[--prefix P]", "", "", false, true},
});

// Options and subcommands of flock, timeout, etcdctl, mysql and others, with dblock's words for them.
struct Habit {
  std::string_view typed;  // without its dashes
  Scope scope;
  std::string_view meant;
};
constexpr auto k_option_habits = std::to_array<Habit>({
    {"nb", k_run, "-n"},
    {"no-wait", k_run, "-n"},
    {"nowait", k_run, "-n"},
    {"nb", k_acquire, "--wait 0, the default"},
    {"no-wait", k_acquire, "--wait 0, the default"},
    {"nonblock", k_acquire, "--wait 0, the default"},
    {"timeout", k_run, "--wait (for the lock) or --max-runtime (of the job)"},
    {"timeout", k_acquire | k_release, "--wait"},
    {"lock-timeout", k_run | k_acquire, "--wait"},
    {"jitter", k_run, "--splay"}, {"random-delay", k_run, "--splay"}, {"max-retries", k_run, "--retry"},
    {"kill-after", k_run, "--stop-grace"}, {"on-success", k_run, "--on-end"}, {"on-failure", k_run, "--on-end"},
    {"expire", k_run | k_acquire | k_renew, "--ttl"},
    {"retries", k_run, "--retry (of the job) or --attempts (to get the lock)"},
    {"retries", k_acquire, "--attempts"},
    {"name", k_run | k_acquire | k_renew | k_release | k_pause | k_resume | k_inspect | k_history, "--key"},
    {"lock", k_run | k_acquire | k_renew | k_release | k_pause | k_resume | k_inspect | k_history, "--key"},
    {"duration", k_pause, "--for"},
    {"all", k_pause | k_resume, "--prefix ''"},
    {"pid", k_acquire, "--while-pid"},
    {"on-lost", k_acquire, "--lost-signal"},
    {"follow", k_inspect, "--watch"},
    {"host", k_global, "--db mysql://USER@HOST/DATABASE"},
    {"user", k_global, "--db mysql://USER@HOST/DATABASE"},
    {"database", k_global, "--db mysql://USER@HOST/DATABASE"}, {"url", k_global, "--db mysql://USER@HOST/DATABASE"},
    {"password", k_global, "DBLOCK_PASSWORD_FILE, or password-file in the URL of --db"}, {"tls", k_global, "tls in the URL of --db"},
});
constexpr auto k_subcommand_habits = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"status", "inspect"}, {"list", "inspect"}, {"ls", "inspect"}, {"show", "inspect"}, {"ps", "inspect"},
    {"who", "inspect"}, {"lock", "run (for a command) or acquire (for a script)"}, {"exec", "run"},
    {"unlock", "release"}, {"await", "wait"}, {"unpause", "resume"}, {"suspend", "pause"}, {"init", "migrate"}, {"setup", "migrate"},
    {"log", "history"}, {"logs", "history"}, {"check", "doctor"}, {"completions", "completion"},
});
// clang-format on

}  // namespace

std::string_view option_meant(std::string_view typed, Scope scope) {
  const auto* const it = std::ranges::find_if(k_option_habits, [&](const Habit& habit) {
    return habit.typed == typed && (habit.scope & scope) != 0;
  });
  return it == k_option_habits.end() ? std::string_view() : it->meant;
}

std::string_view subcommand_meant(std::string_view typed) {
  const auto* const it =
      std::ranges::find(k_subcommand_habits, typed, [](const auto& pair) { return pair.first; });
  return it == k_subcommand_habits.end() ? std::string_view() : it->second;
}

std::span<const OptionSpec> option_specs() {
  return k_options;
}
std::span<const SubcommandSpec> subcommand_specs() {
  return k_subcommands;
}

const SubcommandSpec& spec_of(Subcommand command) {
  return *std::ranges::find(k_subcommands, command, &SubcommandSpec::id);
}

std::optional<Subcommand> find_subcommand(std::string_view name) {
  const auto* const it = std::ranges::find(k_subcommands, name, &SubcommandSpec::name);
  if (it == k_subcommands.end()) return std::nullopt;
  return it->id;
}

bool takes_words(Subcommand command) {
  return command == Subcommand::run || command == Subcommand::help || command == Subcommand::completion;
}

const OptionSpec* find_option(std::string_view name, Scope scope) {
  const auto* const it = std::ranges::find_if(
      k_options, [&](const OptionSpec& spec) { return spec.name == name && (spec.scope & scope) != 0; });
  return it == k_options.end() ? nullptr : it;
}

const OptionSpec* find_option(char letter, Scope scope) {
  const auto* const it = std::ranges::find_if(
      k_options, [&](const OptionSpec& spec) { return spec.letter == letter && (spec.scope & scope) != 0; });
  return letter == 0 || it == k_options.end() ? nullptr : it;
}

std::vector<std::string_view> choices_of(const OptionSpec& spec) {
  std::vector<std::string_view> words;
  for (std::string_view rest = spec.value.choices; !rest.empty();) {
    const auto end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

std::string names_of(Scope scope) {
  std::string names;
  for (const auto& spec : k_subcommands) {
    if (spec.hidden || (scope & scope_of(spec.id)) == 0) continue;
    if (!names.empty()) names += ", ";
    names += spec.name;
  }
  return names;
}

}  // namespace dblock::cli
