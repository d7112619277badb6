// A client library that is loaded [loaded] is loaded by the first connection to a server and by nothing else,
// and where it is missing nothing else suffers. In a self-contained program it is a part of the program.
#include <cerrno>
#include <filesystem>
#include <sstream>

#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/dblock.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

constexpr const char* k_file = "libmariadb.so.3";

bool maps(pid_t pid, const std::string& library) {
  return read_file("/proc/" + std::to_string(pid) + "/maps").find("/" + library) != std::string::npos;
}

// A library that every C++ program maps, with none of the functions that dblock looks for.
std::string some_other_library() {
  std::istringstream lines(read_file("/proc/self/maps"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("/libm.so") != std::string::npos) return line.substr(line.find('/'));
  }
  throw std::runtime_error("no libm is mapped");
}

// The dynamic linker looks here first.
class FakeLibrary {
 public:
  explicit FakeLibrary(const std::string& text) { write_file(directory_.file(k_file), text); }
  [[nodiscard]] std::string variable() const { return "LD_LIBRARY_PATH=" + directory_.path(); }

 private:
  TempDir directory_;
};

std::string expect_refused(const ServerDatabase& database, const Words& arguments, const FakeLibrary& fake) {
  const auto finished = dblock(database, arguments, {fake.variable()});
  INFO(arguments.front() << ": " << finished.err);
  check_ended(finished, 78, {k_file, "package libmariadb3", "--local"});
  CHECK(finished.out.empty());
  return finished.err;
}

TEST_CASE("every subcommand that needs a server says 78 when the client library cannot be loaded",
          "[server][loaded]") {
  const ServerDatabase database;
  const FakeLibrary fake("");
  for (const Words& arguments : {Words{"acquire", "--key", "k", "--ttl", "10s"},
                                 {"renew", "--key", "k", "--owner", "o"},
                                 {"release", "--key", "k", "--owner", "o"},
                                 {"inspect"},
                                 {"reap"},
                                 {"migrate"}})
    expect_refused(database, arguments, fake);
}

TEST_CASE("a run says in words why the client library cannot be loaded, and runs nothing",
          "[server][loaded][asan-server]") {
  ServerDatabase database;
  const TempDir directory;
  const Words run = run_words("k", {"--wait", "1h"}, {"touch", directory.file("ran")});
  CHECK(says(expect_refused(database, run, FakeLibrary("")), "file too short"));
  CHECK(says(expect_refused(database, run, FakeLibrary(std::string(1000, 'x'))), "ELF"));
  CHECK(
      says(expect_refused(database, run, FakeLibrary(read_file(some_other_library()))), "undefined symbol"));
  CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  CHECK(database.rows() == 0);
}

// They differ between cron and a shell, which must mean the same server and account.
TEST_CASE("the client library's own variables decide on no password, port or socket",
          "[server][other-servers]") {
  ServerDatabase database;
  const auto run = [](const std::string& url, const std::string& variable) {
    auto finished = dblock_at(url, run_words("k", {}, {"true"}), {variable});
    INFO(url << " " << variable << ": " << finished.err);
    CHECK((finished.exit == exited(0)) == finished.err.empty());
    return finished;
  };
  const std::string secretive = database.account("IDENTIFIED BY 'right-one'");
  const std::string open = database.account();
  CHECK(run(database.url(secretive), "MYSQL_PWD=right-one").exit == exited(77));
  CHECK(run(database.url(open), "MYSQL_PWD=wrong-one").exit == exited(0));
  const auto& server = database.server();
  const std::string nowhere = "/" + database.name() + "?connect-timeout=1s";
  CHECK(run("mysql://app@127.0.0.1" + nowhere, "MYSQL_TCP_PORT=" + std::to_string(server.port)).exit !=
        exited(0));
  CHECK(run("mysql://app@localhost" + nowhere, "MYSQL_UNIX_PORT=" + server.socket).exit != exited(0));
  CHECK(run(database.tcp_url(), "MYSQL_TCP_PORT=1").exit == exited(0));
  CHECK(run(database.url(), "MYSQL_UNIX_PORT=/nonexistent/sock").exit == exited(0));
}

TEST_CASE("a run that cannot load the client library leaves no guardian behind", "[server][loaded]") {
  const ServerDatabase database;
  const FakeLibrary fake("");
  Process run(dblock_spawn(database, run_words("k", {}, {"true"}), {fake.variable()}));
  CHECK(run.wait() == exited(78));
  CHECK(run.tree().empty());
}

TEST_CASE("what needs no server works without the client library", "[loaded]") {
  const FakeLibrary fake("");
  const auto version = dblock_bare({"--version"}, {fake.variable()});
  CHECK(version.exit == exited(0));
  CHECK(version.err.empty());
  CHECK(version.out.starts_with("dblock "));
  CHECK(says(version.out, "MariaDB's client library: none"));
  CHECK(says(version.out, "file too short"));
  CHECK(dblock_bare({"run", "--help"}, {fake.variable()}).exit == exited(0));
}

TEST_CASE("the version and doctor say which client library and which OpenSSL are in use",
          "[server][other-servers]") {
  const auto version = dblock_bare({"--version"});
  CHECK(version.exit == exited(0));
  REQUIRE(lines(version.out).size() == 2);
  const std::string words = lines(version.out).at(1);
  const std::string before = "MariaDB's client library: ";
  REQUIRE(words.starts_with(before + "3."));
  CHECK(says(words, " with OpenSSL "));
  const ServerDatabase database;
  const auto doctor = dblock(database, {"doctor"});
  INFO(doctor.out);
  CHECK(says(doctor.out, words.substr(before.size())));
}

// Without dblock's own check of the certificate these versions would take exceptions for themselves.
TEST_CASE("a client library 3.4 with which dblock cannot check certificates makes no connection with TLS",
          "[server][loaded]") {
  DBLOCK_NEEDS(why_no_preload());
  const ServerDatabase database;
  const auto inspect = [&](const std::string& tls, const std::string& way, const std::string& version) {
    const auto odd = with(refusing("DBLOCK_TEST_CLIENT=" + way), {"DBLOCK_TEST_CLIENT_VERSION=" + version});
    return dblock_at(database.tcp_url() + tls, {"inspect"}, odd);
  };
  const std::string verified = "?tls=verify-full&tls-ca=/etc/hostname";
  for (const auto& tls : {std::string("?tls=require"), verified}) {
    CAPTURE(tls);
    for (const char* version : {"3.4.0", "3.4.1"})
      check_ended(inspect(tls, "first-of-its-kind", version), 78,
                  {"client library " + std::string(version), "install 3.4.2 or newer"});
  }
  check_ended(inspect(verified, "of-gnutls", "3.4.5"), 78, {"uses GnuTLS 3.8.9", "only with OpenSSL"});
  CHECK(inspect("?tls=off", "first-of-its-kind", "3.4.0").exit == exited(0));
  CHECK(inspect("?tls=prefer", "first-of-its-kind", "3.3.14").exit == exited(0));
}

TEST_CASE("the embedded store works without the client library and never maps it", "[local]") {
  const Database database;
  const FakeLibrary fake("");
  CHECK(dblock(database, {"inspect"}, {fake.variable()}).exit == exited(0));
  const TempDir directory;
  const Words job = sh("touch " + directory.file("up") + "; exec sleep 60");
  Process run(dblock_spawn(database, run_words("k", {}, job)));
  await_file(run, directory.file("up"));
  for (const pid_t pid : run.tree()) {
    for (const char* library : {k_file, "libssl.", "libcrypto."}) CHECK_FALSE(maps(pid, library));
  }
}

TEST_CASE("of a run's processes only dblock maps the client library and its crypto", "[server][loaded]") {
  const ServerDatabase database;
  LiveRun run(database, {}, sleeping_job);
  CHECK(maps(run.pid(), k_file));
  CHECK(maps(run.pid(), "libcrypto."));
  for (const char* library : {k_file, "libssl.", "libcrypto."}) {
    CAPTURE(library);
    CHECK_FALSE(maps(guardian_of(run), library));
    CHECK_FALSE(maps(job_of(run), library));
  }
}

TEST_CASE("a client library that the loader gives no reason for is missing all the same",
          "[server][loaded]") {
  DBLOCK_NEEDS(why_no_preload());
  const ServerDatabase database;
  const FakeLibrary fake("");
  check_ended(dblock(database, {"inspect"}, with(failing("dlerror", EIO), {fake.variable()})), 78,
              {"no reason given", "package libmariadb3"});
}

TEST_CASE("a client library that does not do what it should is found out, and nothing is granted",
          "[server][loaded]") {
  DBLOCK_NEEDS(why_no_preload());
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  ServerDatabase database(server.address());
  struct Oddity {
    const char* way;
    const char* said;
  };
  for (const auto& [way, said] : std::vector<Oddity>{
           {"out-of-memory", "out of memory"},
           {"unencrypted", "the connection is not encrypted"},
           {"forgetful", "MariaDB's client library did not let dblock check the certificate"},
           {"of-another-shape", "the TLS session of MariaDB's client library cannot be read; install"},
           {"uncertified", "the server shows no certificate"}}) {
    CAPTURE(way);
    check_ended(dblock_at(database.tcp_url() + "?tls=verify-full&tls-ca=" + certificates.authority(),
                          run_words("k", {}, {"true"}), refusing(std::string("DBLOCK_TEST_CLIENT=") + way)),
                way == std::string("out-of-memory") ? 69 : 78, {said});
  }
  CHECK(database.rows() == 0);
}

}  // namespace
}  // namespace dblock::test
