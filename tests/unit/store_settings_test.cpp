#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "store/config/settings.hpp"
#include "support/catch.hpp"
#include "temp_directory.hpp"

namespace dblock::store {
namespace {

using Hosts = std::vector<HostPort>;

class Directory : public TempDirectory {
 public:
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string path = file(name);
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
};

PartialSettings read(const std::string& text) {
  const Directory directory;
  auto settings = read_option_file(directory.write("my.cnf", text));
  REQUIRE(settings);
  return *settings;
}

const MariadbSettings& server_of(const Result<ResolvedSettings>& resolved) {
  return std::get<MariadbSettings>(resolved->settings);
}

// The path of the embedded store that `from` adds up to.
std::string file_of(const SettingsSources& from) {
  const auto resolved = resolve_settings(from);
  REQUIRE(resolved);
  CHECK(resolved->warnings.empty());
  REQUIRE(std::holds_alternative<SqliteSettings>(resolved->settings));
  return std::get<SqliteSettings>(resolved->settings).path;
}

// Nothing of this machine's own option files takes part.
SettingsSources sources(const Directory& directory, const std::string& option_file,
                        std::optional<std::string> url = std::nullopt) {
  SettingsSources from;
  from.url = std::move(url);
  from.defaults_file = directory.write("defaults.cnf", option_file);
  return from;
}

bool mentions(const std::vector<std::string>& warnings, std::string_view word) {
  for (const auto& warning : warnings) {
    if (warning.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("an option file's group dblock names the database") {
  const auto settings = read(
      "# a comment\n"
      "[dblock]\n"
      "host = db1 # the primary\n"
      "port=3307\n"
      "database='locks'\n"
      "user = \"night ly\"\n"
      "password = \"a#b\\\"c\\\\d\"\n"
      "; another comment\n");
  CHECK(settings.hosts == Hosts{{"db1", 3307}});
  CHECK(settings.database == "locks");
  CHECK(settings.user == "night ly");
  CHECK(settings.password == "a#b\"c\\d");
}

TEST_CASE("client groups fill in who logs in and how, but never where the database is") {
  const auto settings = read(
      "[client]\nhost=elsewhere\nport=1\nsocket=/run/mysqld/mysqld.sock\ndatabase=other\nuser=u\npassword=p\n"
      "[client-server]\nssl_ca=/ca.pem\n[client-mariadb]\nssl-verify-server-cert\n"
      "[mysqld]\nuser=mysql\n[mysql]\npassword=no\n");
  CHECK(settings.hosts.empty());
  CHECK_FALSE(settings.socket);
  CHECK_FALSE(settings.database);
  CHECK(settings.user == "u");
  CHECK(settings.password == "p");
  CHECK(settings.tls_ca == "/ca.pem");
  CHECK(settings.tls == TlsMode::verify_full);
}

TEST_CASE("group dblock wins over client groups whichever comes last") {
  CHECK(read("[dblock]\nuser=a\n[client]\nuser=b\n").user == "a");
  CHECK(read("[client]\nuser=b\n[dblock]\nuser=a\n").user == "a");
}

TEST_CASE("TLS options of both dialects map to modes") {
  CHECK(read("[client]\nssl\n").tls == TlsMode::require);
  CHECK(read("[client]\nssl=0\n").tls == TlsMode::off);
  CHECK(read("[client]\nskip-ssl\n").tls == TlsMode::off);
  CHECK(read("[client]\nssl_verify_server_cert=1\nssl\n").tls == TlsMode::verify_full);
  CHECK(read("[client]\nssl\nssl-verify-server-cert=0\n").tls == TlsMode::require);
  CHECK(read("[client]\nssl-mode=REQUIRED\n").tls == TlsMode::require);
  CHECK(read("[client]\nssl-mode=verify_ca\n").tls == TlsMode::verify_ca);
  CHECK(read("[client]\nssl-mode=VERIFY_IDENTITY\n").tls == TlsMode::verify_full);
  CHECK(read("[client]\nssl-mode=DISABLED\n").tls == TlsMode::off);
  CHECK(read("[dblock]\ntls=verify-ca\n").tls == TlsMode::verify_ca);
  CHECK_FALSE(read("[client]\nuser=x\n").tls);
}

TEST_CASE("option files include others") {
  const Directory directory;
  std::filesystem::create_directory(directory.path() + "/conf.d");
  directory.write("conf.d/a.cnf", "[dblock]\nhost=a\nuser=from-a\n");
  directory.write("conf.d/b.cnf", "[dblock]\nhost=b\n");
  directory.write("conf.d/ignored.txt", "[dblock]\nhost=ignored\n");
  const auto one = directory.write("one.cnf", "[dblock]\ndatabase=locks\n");
  const auto top =
      directory.write("my.cnf", "!include " + one + "\n!includedir " + directory.path() + "/conf.d\n");
  const auto settings = read_option_file(top);
  REQUIRE(settings);
  CHECK(settings->hosts == Hosts{{"b", 0}});
  CHECK(settings->user == "from-a");
  CHECK(settings->database == "locks");
}

TEST_CASE("an option file that includes itself is refused, a missing one is empty") {
  const Directory directory;
  const auto path = directory.path() + "/loop.cnf";
  directory.write("loop.cnf", "!include " + path + "\n");
  const auto loop = read_option_file(path);
  REQUIRE_FALSE(loop);
  CHECK(loop.error().code == Errc::config);
  const auto missing = read_option_file(directory.path() + "/none.cnf");
  REQUIRE(missing);
  CHECK_FALSE(missing->database);
}

TEST_CASE("faults in an option file are named with their line") {
  const Directory directory;
  for (const auto* const text : {"[dblock]\nport=x\n", "[dblock]\nhost=a=b\n", "[dblock]\ntls=some\n",
                                 "[client]\nssl-mode=some\n", "[dblock]\nconnect-timeout=5\n"}) {
    CAPTURE(text);
    const auto settings = read_option_file(directory.write("my.cnf", text));
    REQUIRE_FALSE(settings);
    CHECK(settings.error().code == Errc::config);
    CHECK(settings.error().message.find("line 2") != std::string::npos);
  }
}

TEST_CASE("an option file that everybody may write is ignored with a warning") {
  const Directory directory;
  SettingsSources from;
  from.url = "mysql://u@db1/locks";
  from.defaults_file = directory.write("my.cnf", "[client]\npassword=evil\n", 0666);
  const auto resolved = resolve_settings(from);
  REQUIRE(resolved);
  CHECK_FALSE(server_of(resolved).password);
  CHECK(mentions(resolved->warnings, "ignored"));
}

TEST_CASE("nothing configured is an error that names the ways to configure") {
  const Directory directory;
  const auto resolved =
      resolve_settings(sources(directory, "[client]\nuser=u\nsocket=/run/mysqld/mysqld.sock\n"));
  REQUIRE_FALSE(resolved);
  CHECK(resolved.error().code == Errc::config);
  CHECK(resolved.error().message.find("DBLOCK_DB") != std::string::npos);
  CHECK(resolved.error().message.find("--db") != std::string::npos);
  CHECK(resolved.error().message.find("option file") != std::string::npos);
  CHECK(resolved.error().message.find("--local") != std::string::npos);
}

TEST_CASE("half a configuration is an error that names the missing half") {
  const Directory directory;
  const auto no_host = resolve_settings(sources(directory, "", "mysql:///locks"));
  REQUIRE_FALSE(no_host);
  CHECK(no_host.error().message.find("no host") != std::string::npos);
  const auto no_database = resolve_settings(sources(directory, "[dblock]\nhost=db1\n"));
  REQUIRE_FALSE(no_database);
  CHECK(no_database.error().message.find("no database") != std::string::npos);
}

TEST_CASE("parts of the URL win over the option file field by field") {
  const Directory directory;
  const auto resolved = resolve_settings(sources(
      directory, "[dblock]\nhost=db1\nport=3307\ndatabase=locks\nuser=u\npassword=p\n", "mysql://v@/other"));
  REQUIRE(resolved);
  CHECK(server_of(resolved).hosts == Hosts{{"db1", 3307}});
  CHECK(server_of(resolved).database == "other");
  CHECK(server_of(resolved).user == "v");
  CHECK(server_of(resolved).password == "p");
}

TEST_CASE("a host in the URL keeps the option file's socket out") {
  const Directory directory;
  const auto resolved =
      resolve_settings(sources(directory, "[dblock]\nsocket=/x.sock\ndatabase=locks\n", "mysql://db1"));
  REQUIRE(resolved);
  CHECK(server_of(resolved).socket.empty());
  CHECK(server_of(resolved).hosts == Hosts{{"db1", 0}});
}

TEST_CASE("relative paths become absolute") {
  const Directory directory;
  const std::string ca = directory.write("ca.pem", "x");
  const auto relative = std::filesystem::relative(ca).string();
  const auto resolved = resolve_settings(
      sources(directory, "", "mysql://localhost/locks?tls=verify-ca&socket=s.sock&tls-ca=" + relative));
  REQUIRE(resolved);
  CHECK(server_of(resolved).socket == std::filesystem::current_path().string() + "/s.sock");
  CHECK(server_of(resolved).tls_ca.front() == '/');
}

TEST_CASE("certificates are checked when the settings say against what") {
  const Directory directory;
  const std::string ca = directory.write("ca.pem", "x");
  const auto resolved = resolve_settings(sources(directory, "", "mysql://db1/locks?tls-ca=" + ca));
  REQUIRE(resolved);
  CHECK(server_of(resolved).tls == TlsMode::verify_ca);
  CHECK_FALSE(resolve_settings(sources(directory, "", "mysql://db1/locks?tls=verify-ca")));
  CHECK_FALSE(resolve_settings(sources(directory, "", "mysql://db1/locks?tls=verify-full&tls-ca=/none.pem")));
}

TEST_CASE("the password comes from the URL, then from its password file, then from DBLOCK_PASSWORD_FILE") {
  const Directory directory;
  const auto first = directory.write("first", "one\n");
  const auto second = directory.write("second", "two\n\n");
  const std::string options = "[client]\npassword=three\n";
  const auto password = [&](const std::string& url, std::optional<std::string> variable) {
    auto from = sources(directory, options, url);
    from.password_file = std::move(variable);
    const auto resolved = resolve_settings(from);
    REQUIRE(resolved);
    return server_of(resolved).password.value_or("(none)");
  };
  CHECK(password("mysql://u:zero@db1/locks?password-file=" + first, second) == "zero");
  CHECK(password("mysql://u@db1/locks?password-file=" + first, second) == "one");
  CHECK(password("mysql://u@db1/locks", second) == "two\n");
  CHECK(password("mysql://u@db1/locks", std::nullopt) == "three");
}

TEST_CASE("exposed passwords earn a warning") {
  const Directory directory;
  auto from =
      sources(directory, "", "mysql://u@db1/locks?password-file=" + directory.write("open", "p\n", 0644));
  auto resolved = resolve_settings(from);
  REQUIRE(resolved);
  CHECK(mentions(resolved->warnings, "others may read"));

  from = sources(directory, "", "mysql://u:hunter2@db1/locks");
  resolved = resolve_settings(from);
  REQUIRE(resolved);
  CHECK(resolved->warnings.empty());
  from.url_from_command_line = true;
  resolved = resolve_settings(from);
  REQUIRE(resolved);
  CHECK(mentions(resolved->warnings, "--db"));
  CHECK_FALSE(mentions(resolved->warnings, "hunter2"));
}

TEST_CASE("unreadable files that were asked for are errors") {
  const Directory directory;
  SettingsSources from;
  from.url = "mysql://u@db1/locks";
  from.defaults_file = directory.path() + "/none.cnf";
  CHECK_FALSE(resolve_settings(from));
  from.defaults_file = directory.write("my.cnf", "");
  from.password_file = directory.path() + "/none";
  const auto resolved = resolve_settings(from);
  REQUIRE_FALSE(resolved);
  CHECK(resolved.error().code == Errc::config);
  CHECK(resolved.error().message.find("/none") != std::string::npos);
}

TEST_CASE("local means one file of the system for root and one of his own for everybody else") {
  SettingsSources from;
  from.local = true;
  from.root = true;
  CHECK(file_of(from) == "/var/lib/dblock/locks.db");
  from.home = "/home/u";
  from.state_home = "/home/u/state";
  CHECK(file_of(from) == "/var/lib/dblock/locks.db");
  from.root = false;
  CHECK(file_of(from) == "/home/u/state/dblock/locks.db");
  from.state_home = "state";  // relative: the XDG specification has it ignored
  CHECK(file_of(from) == "/home/u/.local/state/dblock/locks.db");
  from.state_home = "";
  CHECK(file_of(from) == "/home/u/.local/state/dblock/locks.db");
  for (const auto* const home : {"", "u"}) {
    from.home = home;
    const auto resolved = resolve_settings(from);
    REQUIRE_FALSE(resolved);
    CHECK(resolved.error().code == Errc::config);
    CHECK(resolved.error().message.find("sqlite:PATH") != std::string::npos);
  }
}

TEST_CASE("the embedded store reads no option file and no password file") {
  const Directory directory;
  const std::string broken = directory.write("broken.cnf", "[dblock]\nport=x\n");
  SettingsSources from;
  from.url = "sqlite:/x/locks.db";
  for (const auto& file : {broken, directory.path() + "/none.cnf"}) {
    from.defaults_file = file;
    from.password_file = directory.path() + "/none";
    CHECK(file_of(from) == "/x/locks.db");
  }
  from.url.reset();
  from.local = true;
  from.root = true;
  CHECK(file_of(from) == "/var/lib/dblock/locks.db");
  from.local = false;
  CHECK_FALSE(resolve_settings(from));
}

TEST_CASE("an option file names a server and no file, whatever it says") {
  const Directory directory;
  const auto resolved = resolve_settings(sources(directory, "[dblock]\nlocal=1\ndb=sqlite:/x.db\n"));
  REQUIRE_FALSE(resolved);
  CHECK(resolved.error().code == Errc::config);
}

TEST_CASE("settings are displayed without the password") {
  MariadbSettings settings;
  settings.hosts = {{"db1", 0}, {"::1", 3307}};
  settings.user = "u";
  settings.password = "hunter2";
  settings.database = "locks";
  CHECK(settings.display() == "mysql://u@db1,[::1]:3307/locks");
  settings.hosts.clear();
  settings.socket = "/x.sock";
  CHECK(settings.display() == "mysql://u@localhost/locks (socket /x.sock)");
}

}  // namespace dblock::store
