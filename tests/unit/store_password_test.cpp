// Where the password comes from, above all the command that prints it.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/unique_fd.hpp"
#include "store/config/settings.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock::store {
namespace {

std::string write_private(const TempDirectory& directory, const std::string& name, const std::string& text) {
  const std::string path = directory.file(name);
  std::ofstream(path) << text;
  ::chmod(path.c_str(), 0600);
  return path;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Nothing of this machine's own option files takes part.
SettingsSources sources_with(const TempDirectory& directory, const std::string& option_file,
                             const std::string& url) {
  SettingsSources from;
  from.url = url;
  from.defaults_file = write_private(directory, "defaults.cnf", option_file);
  return from;
}

// The password and its source, or why there is none, as "PASSWORD from SOURCE".
std::string password_by(const SettingsSources& from) {
  const auto resolved = resolve_settings(from);
  if (!resolved) return (resolved.error().code == Errc::config ? "78: " : "?: ") + resolved.error().message;
  const auto& server = std::get<MariadbSettings>(resolved->settings);
  if (server.password_source.failure) {
    CHECK(server.password_source.failure->code == Errc::unreachable);
    return "69: " + server.password_source.failure->message;
  }
  return server.password.value_or("(none)") + " from " + server.password_from;
}

TEST_CASE("a password from a command lets a holder keep its session, unless brief is asked for") {
  const TempDirectory directory;
  const auto holder_session = [&](const std::string& parameters, bool by_command) {
    auto from = sources_with(directory, "", "mysql://u@db1/locks" + parameters);
    if (by_command) from.password_command = {"echo secret", "password-command in x.conf"};
    const auto resolved = resolve_settings(from);
    REQUIRE(resolved);
    return std::get<MariadbSettings>(resolved->settings).connection;
  };
  CHECK(holder_session("", false) == HolderSession::automatic);
  CHECK(holder_session("", true) == HolderSession::keep);
  CHECK(holder_session("?connection=auto", true) == HolderSession::keep);
  CHECK(holder_session("?connection=brief", true) == HolderSession::brief);
}

TEST_CASE("password files come before commands, these before DBLOCK_PASSWORD, and that before option files") {
  const TempDirectory directory;
  const auto file = write_private(directory, "file", "of a file\n");
  const std::string client = "[client]\npassword=stored\n";
  auto from = sources_with(directory, client, "mysql://u@db1/locks");
  from.named_by = "DBLOCK_DB";
  CHECK_THAT(password_by(from), Catch::StartsWith("stored from option file "));
  from.password = "variable";
  CHECK(password_by(from) == "variable from DBLOCK_PASSWORD");
  from.password_command = {"echo configured", "password-command in x.conf"};
  CHECK(password_by(from) == "configured from password-command in x.conf");
  auto by_configured_file = from;
  by_configured_file.config_password_file = file;
  CHECK(password_by(by_configured_file) == "of a file from password file " + file);
  const auto with_options = [&](const std::string& options) {
    auto changed = from;
    changed.defaults_file = write_private(directory, "more.cnf", client + options);
    return changed;
  };
  CHECK(password_by(with_options("[dblock]\npassword-command = 'echo \"of options\"'\n")) ==
        "of options from password-command in option file " + directory.path() + "/more.cnf line 4");
  from.url = "mysql://u@db1/locks?password-command=echo%20of%20URL";
  CHECK(password_by(from) == "of URL from password-command in the URL of DBLOCK_DB");
  CHECK_THAT(password_by(with_options("[dblock]\npassword-file=" + file + "\n")),
             Catch::StartsWith("of a file from password file "));
  from.password_file = file;
  CHECK_THAT(password_by(from), Catch::StartsWith("of a file from DBLOCK_PASSWORD_FILE"));
  from.url = "mysql://u:typed@db1/locks";
  CHECK(password_by(from) == "typed from the URL of DBLOCK_DB");
}

TEST_CASE("a password file and DBLOCK_PASSWORD lose one line end, and no more") {
  const TempDirectory directory;
  auto from = sources_with(directory, "", "mysql://u@db1/locks");
  using Read = std::pair<std::string, std::string>;
  for (const auto& [given, password] :
       {Read{"secret\n", "secret"}, Read{"secret\r\n", "secret"}, Read{"secret\r", "secret"},
        Read{"secret\n\n", "secret\n"}, Read{" s ", " s "}}) {
    CAPTURE(given);
    from.password = given;
    from.password_file.reset();
    CHECK(password_by(from) == password + " from DBLOCK_PASSWORD");
    from.password_file = write_private(directory, "file", given);
    CHECK_THAT(password_by(from), Catch::StartsWith(password + " from DBLOCK_PASSWORD_FILE"));
  }
}

TEST_CASE(
    "a password file that the world or a foreign group may read earns a warning, an option file a remark") {
  const TempDirectory directory;
  // A group that this process is not in, where it may give the files to one.
  const bool foreign = ::geteuid() == 0 && GENERATE(true, false);
  const auto file = write_private(directory, "file", "secret\n");
  const auto by_file = sources_with(directory, "", "mysql://u@db1/locks?password-file=" + file);
  auto by_options = sources_with(directory, "", "mysql://u@db1/locks");
  by_options.defaults_file = write_private(directory, "more.cnf", "[client]\npassword=secret\n");
  const std::string& options = *by_options.defaults_file;
  using Said = std::vector<std::string>;
  if (foreign) REQUIRE((::chown(file.c_str(), 0, 54321) == 0 && ::chown(options.c_str(), 0, 54321) == 0));
  for (const mode_t mode : {0600, 0400, 0620, 0610, 0604, 0640, 0644, 0444}) {
    if (foreign && (mode & 0020) != 0) continue;  // root obeys no option file that such a group may write
    CAPTURE(mode);
    const auto when_exposed = [mode, foreign](const std::string& what) {
      return (mode & (foreign ? 0044 : 0004)) != 0 ? Said{"others may read " + what + "; chmod 600 it"}
                                                   : Said{};
    };
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    REQUIRE(::chmod(options.c_str(), mode) == 0);
    const auto with_file = resolve_settings(by_file);
    const auto with_options = resolve_settings(by_options);
    REQUIRE((with_file && with_options));
    CHECK(with_file->warnings == when_exposed("password file " + file));
    CHECK(with_options->remarks == when_exposed("the password in option file " + options));
  }
}

TEST_CASE("the embedded store runs no command for a password") {
  SettingsSources from;
  from.url = "sqlite:/x/locks.db";
  from.password_command = {"exit 3", "password-command"};
  const auto resolved = resolve_settings(from);
  REQUIRE(resolved);
  CHECK(std::get<SqliteSettings>(resolved->settings).path == "/x/locks.db");
}

// The password, or why there is none, by a command of a configuration file.
std::string by_command(const std::string& command, const std::string& timeout = "1h") {
  const TempDirectory directory;
  auto from = sources_with(directory, "", "mysql://u@db1/locks?connect-timeout=" + timeout);
  from.password_command = {command, "password-command in x"};
  return password_by(from);
}

TEST_CASE("the first line that a command prints is the password, with its blanks and nothing else") {
  const std::string source = " from password-command in x";
  CHECK(by_command("echo one; echo two") == "one" + source);
  CHECK(by_command("printf ' a b '") == " a b " + source);
  CHECK(by_command("echo one; yes | head -n 100000") == "one" + source);
  // What is left in the background keeps the pipe open.
  const TempDirectory directory;
  const std::string pid = directory.file("pid");
  CHECK(by_command("echo one; sleep 3600 2>/dev/null & echo $! >" + pid) == "one" + source);
  ::kill(std::stoi(read_text(pid)), SIGKILL);
}

TEST_CASE("a command that fails, prints no password or takes too long gives no password, and says so") {
  CHECK(
      by_command("echo secret; exit 3") ==
      "69: the password-command in x failed with exit status 3; run it by hand, as the user who runs dblock");
  CHECK_THAT(by_command("echo secret; kill -9 $$"), Catch::Contains("was killed by signal 9"));
  CHECK_THAT(by_command("no-such-program 2>/dev/null"),
             Catch::StartsWith("78: the password-command in x failed with exit status 127 (not found"));
  for (const auto* const command : {"true", "echo", "echo; echo secret"})
    CHECK_THAT(by_command(command), Catch::Contains("printed no password"));
  CHECK_THAT(by_command("yes secret | head -n 1000 | tr -d '\\n'"), Catch::Contains("too long"));
  const auto late = by_command("echo secret; sleep 3600", "100ms");
  CHECK_THAT(late, Catch::Contains("did not end within 100ms (connect-timeout) and was killed"));
  CHECK_THAT(late, !Catch::Contains("secret"));
}

// Of the process whose number is in this file.
bool soon_dead(const std::string& file) {
  const std::string pid = std::to_string(std::stoi(read_text(file)));
  const auto lives = [&pid] {
    std::ifstream stat("/proc/" + pid + "/stat");
    std::string id, name, state;
    return stat >> id >> name >> state && state != "Z";
  };
  for (int tries = 0; lives() && tries < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return !lives();
}

TEST_CASE("a command that takes too long is killed with what it has started") {
  const TempDirectory directory;
  const std::string pid = directory.path() + "/pid";
  by_command("sleep 3600 & echo $! >" + pid + "; wait", "500ms");
  CHECK(soon_dead(pid));
}

TEST_CASE("a command dies with the process that watches it, and gives no password") {
  const TempDirectory directory;
  const std::string pid = directory.path() + "/pid";
  CHECK_THAT(by_command("echo secret; echo $$ >" + pid + "; kill -9 $PPID; exec sleep 3600"),
             Catch::Contains("was killed by signal 9"));
  CHECK(soon_dead(pid));
}

TEST_CASE("a command sees none of its caller's descriptors, and its caller's signals are as before") {
  const UniqueFd extra(::open("/dev/zero", O_RDONLY));
  ::signal(SIGCHLD, SIG_IGN);
  // Not `ls` alone, which the shell would become; and in no pipe, an end of which the shell would hold for a
  // while.
  const auto open_ones = by_command("ls -m /proc/$$/fd; true");
  CHECK(::signal(SIGCHLD, SIG_DFL) == SIG_IGN);
  CHECK(open_ones == "0, 1, 2 from password-command in x");
  CHECK(by_command("readlink /proc/$$/fd/0") == "/dev/null from password-command in x");
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  CHECK(sigismember(&blocked, SIGTERM) == 0);
}

TEST_CASE("inside a password-command dblock runs none") {
  const TempDirectory directory;
  auto from = sources_with(directory, "", "mysql://u@db1/locks");
  from.password_command = {"echo secret", "password-command in x"};
  from.in_password_command = true;
  CHECK_THAT(password_by(from), Catch::StartsWith("78: the password-command in x calls a dblock"));
  CHECK(by_command("echo $DBLOCK_EVENT") == "password from password-command in x");
}

TEST_CASE("an option file that others may write names no command") {
  const TempDirectory directory;
  if (::geteuid() != 0) return;
  auto from = sources_with(directory, "", "mysql://u@db1/locks");
  from.defaults_file = write_private(directory, "writable.cnf", "[dblock]\npassword-command=echo p\n");
  REQUIRE(::chown(from.defaults_file->c_str(), 1, 1) == 0);
  CHECK_THAT(password_by(from),
             Catch::StartsWith("78: option file " + *from.defaults_file +
                               " line 2 may be changed by other users, and with it which commands are run"));
}

}  // namespace
}  // namespace dblock::store
