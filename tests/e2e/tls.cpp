// TLS modes refuse what they promise to refuse: plaintext, foreign certificates, wrong names.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "support/catch.hpp"
#include "support/certificates.hpp"
#include "support/dblock.hpp"
#include "support/fake_server.hpp"
#include "support/live_run.hpp"
#include "support/privilege.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using namespace std::string_literals;

Finished inspected_with(const ServerDatabase& database, const std::string& parameters) {
  return dblock_at(database.tcp_url() + "?" + parameters, {"inspect"});
}

Exit inspect_with(const ServerDatabase& database, const std::string& parameters) {
  const auto finished = inspected_with(database, parameters);
  UNSCOPED_INFO(parameters << ": " << finished.err);
  return finished.exit;
}

TEST_CASE("a server without tls is refused by every mode that demands it", "[server][other-servers]") {
  const Server server({without_tls()});
  const ServerDatabase database(server.address());
  const Certificates certificates;
  CHECK(inspect_with(database, "tls=off") == exited(0));
  CHECK(inspect_with(database, "tls=prefer") == exited(0));
  check_ended(inspected_with(database, "tls=require"), 78, {"TLS"});
  check_ended(inspected_with(database, "tls=verify-ca&tls-ca=" + certificates.authority()), 78, {"TLS"});
  check_ended(inspected_with(database, "tls=verify-full&tls-ca=" + certificates.authority()), 78, {"TLS"});
}

TEST_CASE("no run starts its job when tls is demanded and not to be had", "[server]") {
  const Server server({without_tls()});
  const ServerDatabase database(server.address());
  const TempDir directory;
  const auto finished =
      dblock_at(database.tcp_url() + "?tls=require", run_words("k", {}, {"touch", directory.file("ran")}));
  INFO(finished.err);
  check_ended(finished, 78, {"TLS"});
  CHECK(read_file(directory.file("ran")).empty());
}

TEST_CASE("a server with a good certificate is accepted by every mode",
          "[server][other-servers][asan-server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  ServerDatabase database(server.address());
  const std::string ca = "&tls-ca=" + certificates.authority();
  CHECK(inspect_with(database, "tls=prefer") == exited(0));
  CHECK(inspect_with(database, "tls=require") == exited(0));
  CHECK(inspect_with(database, "tls=verify-ca" + ca) == exited(0));
  CHECK(inspect_with(database, "tls=verify-full" + ca) == exited(0));
  // An account that may log in by TLS alone shows that it is really used, with renewals and the guardian too.
  database.sql("CREATE USER sealed@'%' IDENTIFIED BY 'sesame' REQUIRE SSL");
  database.sql("GRANT ALL ON " + database.name() + ".* TO sealed@'%'");
  const auto sealed =
      dblock_at(database.tcp_url("sealed:sesame") + "?tls=verify-full" + ca, run_words("k", {}, {"true"}));
  INFO(sealed.err);
  CHECK(sealed.exit == exited(0));
  CHECK(dblock_at(database.tcp_url("sealed:sesame") + "?tls=off", {"inspect"}).exit == exited(77));
}

TEST_CASE("a certificate of a foreign authority is refused by verify-ca and verify-full",
          "[server][other-servers]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  const ServerDatabase database(server.address());
  const std::string ca = "&tls-ca=" + certificates.file("foreign.pem");
  check_ended(inspected_with(database, "tls=verify-ca" + ca), 78, {"(error 2026)"});
  check_ended(inspected_with(database, "tls=verify-full" + ca), 78, {"(error 2026)"});
}

TEST_CASE("a certificate for another name is refused by verify-full", "[server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("wrong-name"));
  const ServerDatabase database(server.address());
  const std::string ca = "&tls-ca=" + certificates.authority();
  check_ended(
      inspected_with(database, "tls=verify-full" + ca), 78,
      {"the server's certificate is not for 127.0.0.1 but for DNS:somewhere.else.example (error 2026)"});
}

TEST_CASE("without tls-ca verify-full trusts the system's authorities, and the name counts no less",
          "[server][other-servers][asan-server]") {
  const auto [certificate, accepted] =
      GENERATE(table<std::string, bool>({{"good", true}, {"wrong-name", false}, {"expired", false}}));
  CAPTURE(certificate);
  const Certificates certificates;
  const Server server(certificates.server_options(certificate));
  const ServerDatabase database(server.address());
  std::string by_name = database.tcp_url();
  by_name.replace(by_name.find("127.0.0.1"), 9, "localhost");
  for (const std::string& url : {database.tcp_url() + "?", by_name + "?", database.url() + "&"}) {
    const auto finished =
        dblock_at(url + "tls=verify-full", {"inspect"}, {"SSL_CERT_FILE=" + certificates.authority()});
    INFO(url << ": " << finished.err);
    CHECK(finished.exit == exited(accepted ? 0 : 78));
    // Ours, or those of a client library that checks by itself.
    const bool said =
        says(finished.err, "the server's certificate is not") || says(finished.err, "TLS/SSL error");
    CHECK(said != accepted);
  }
}

// An account whose password PAM checks, so that the server must be handed it; any will do, and pam_unix.so
// asks for it.
class PamService {
 public:
  explicit PamService(const std::string& module = "pam_permit.so") {
    write_file(path(), "auth required " + module + "\naccount required pam_permit.so\n");
  }
  PamService(const PamService&) = delete;
  PamService& operator=(const PamService&) = delete;
  ~PamService() { std::filesystem::remove(path()); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] std::string path() const { return "/etc/pam.d/" + name_; }
  const std::string name_ = "dblock-test-" + std::to_string(::getpid());
};

TEST_CASE("an account of PAM logs in over the socket and over tls that proves the server, and nowhere else",
          "[server][mariadb]") {
  DBLOCK_NEEDS(::geteuid() == 0 ? "" : "root, for a service of PAM");
  const auto* const as_dialog = GENERATE("OFF", "ON");
  CAPTURE(as_dialog);
  const PamService pam;
  const Certificates certificates;
  auto options = certificates.server_options("good");
  options.insert(options.end(),
                 {"--plugin-load-add=auth_pam", "--pam-use-cleartext-plugin=" + std::string(as_dialog)});
  const Server server(options);
  ServerDatabase database(server.address());
  const std::string account = database.account("IDENTIFIED VIA pam USING '" + pam.name() + "'") + ":hunter2";
  const std::string ca = "&tls-ca=" + certificates.authority();
  const auto by_tcp = [&](const std::string& tls) {
    return dblock_at(database.tcp_url(account) + "?tls=" + tls, run_words("k", {}, {"true"}));
  };
  for (const auto& tls : {"verify-full" + ca, "verify-ca" + ca}) {
    const auto ran = by_tcp(tls);
    INFO(ran.err);
    CHECK(ran.exit == exited(0));
  }
  CHECK(dblock_at(database.url(account), run_words("k", {}, {"true"})).exit == exited(0));
  for (const auto* const tls : {"off", "prefer", "require"}) {
    const auto refused = by_tcp(tls);
    check_ended(refused, 77, {"use tls=verify-full"});
    CHECK_FALSE(says(refused.err, "tls=require"));
  }
}

// The plugin "dialog" would put the server's question to stdout and read the answer from stdin, which is the
// job's.
TEST_CASE("what a server asks at the login is put to nobody, and the job's input stays the job's",
          "[server][mariadb]") {
  DBLOCK_NEEDS(::geteuid() == 0 ? "" : "root, for a service of PAM");
  const PamService pam("pam_unix.so");
  const Server server({"--plugin-load-add=auth_pam", "--pam-use-cleartext-plugin=OFF"});
  ServerDatabase database(server.address());
  const std::string account = database.account("IDENTIFIED VIA pam USING '" + pam.name() + "'");
  std::array<int, 2> input{};
  REQUIRE(::pipe2(input.data(), O_CLOEXEC) == 0);
  const auto [read_end, write_end] = input;
  const std::string line = "for the job\n";
  REQUIRE(::write(write_end, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  Spawn spawn = dblock_spawn_at(database.url(account), run_words("k", {}, {"head", "-n", "1"}));
  spawn.stdin_fd = read_end;
  Process run(std::move(spawn));
  const Exit exit = run.wait();
  INFO(exit << " " << run.out() << run.err());
  CHECK(exit == exited(77));
  CHECK(run.out().empty());
  std::array<char, 64> left{};
  REQUIRE(::fcntl(read_end, F_SETFL, O_NONBLOCK) == 0);
  CHECK(::read(read_end, left.data(), left.size()) == static_cast<ssize_t>(line.size()));
  for (const int end : input) ::close(end);
}

// What stands between dblock and a server and may change what the server sends, whose parts are numbered from
// 0, the greeting.
class Meddler {
 public:
  using Change = std::function<void(int number, std::string& part)>;
  Meddler(int server_port, Change change) : port_(server_port), change_(std::move(change)) {}
  void operator()(Wire& client) const {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) relay(client, server);
    ::close(server);
  }

 private:
  static std::string read_some(int fd) {
    char bytes[16384];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    return got <= 0 ? "" : std::string(bytes, static_cast<std::size_t>(got));
  }
  void relay(Wire& client, int server) const {
    for (int number = 0;;) {
      std::array<pollfd, 2> fds{pollfd{client.fd(), POLLIN, 0}, pollfd{server, POLLIN, 0}};
      if (::poll(fds.data(), fds.size(), 10'000) <= 0) return;
      if (fds[0].revents != 0) {
        const std::string part = read_some(client.fd());
        if (part.empty()) return;
        client.note_heard(part);
        (void)!::send(server, part.data(), part.size(), MSG_NOSIGNAL);
      }
      if (fds[1].revents != 0) {
        std::string part = read_some(server);
        if (part.empty()) return;
        change_(number++, part);
        client.send_raw(part);
      }
    }
  }
  int port_;
  Change change_;
};

// Takes a capability out of what a greeting says of the server: after version, connection id, eight bytes and
// a filler come two bytes of them, and after character set and status two more.
void take_out(unsigned char capability, std::size_t behind_filler, std::string& greeting) {
  const auto end_of_version = greeting.find('\0', 5);
  const std::size_t at = end_of_version + 1 + 4 + 8 + 1 + behind_filler;
  if (end_of_version == std::string::npos || at >= greeting.size()) return;
  greeting[at] = static_cast<char>(static_cast<unsigned char>(greeting[at]) & ~capability);
}
void take_tls_out(int number, std::string& part) {
  if (number == 0) take_out(0x08, 1, part);
}
// As a proxy that does not pass on what a session tells of its variables.
void take_tracking_out(int number, std::string& part) {
  if (number == 0) take_out(0x80, 5, part);
}

// "Done, one row, insert id 2^40": header and packet number; done, a row, eight bytes of the insert id, in no
// transaction, no warnings.
std::string reply_that_all_is_well(char number) {
  return "\x0f\0\0"s + number + "\0\1\xfe\0\0\0\0\0\1\0\0\2\0\0\0"s;
}

// As the reply to the login and to so many statements.
Meddler::Change add_replies_to_greeting(int statements) {
  return [statements](int number, std::string& part) {
    if (number != 0) return;
    part += reply_that_all_is_well(3);
    for (int i = 0; i < statements; ++i) part += reply_that_all_is_well(1);
  };
}

std::string url_through(const FakeServer& meddler, const ServerDatabase& database, const std::string& account,
                        const std::string& parameters) {
  std::string url = meddler.url(account, "?" + parameters);
  return url.replace(url.find("/d?"), 2, "/" + database.name());
}

TEST_CASE("who strips tls from a connection hears nothing where tls is demanded",
          "[server][other-servers][asan-server]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  ServerDatabase database(server.address());
  const std::string user = database.account("IDENTIFIED BY 'hunter2-hunter2'");
  const std::string ca = "&tls-ca=" + certificates.authority();
  const auto through_stripper = [&](const std::string& tls) {
    FakeServer stripper(Meddler(server.address().port, take_tls_out));
    const std::string url = url_through(stripper, database, user + ":hunter2-hunter2", "tls=" + tls);
    const auto finished = dblock_at(url, run_words("k", {}, {"true"}));
    stripper.stop();
    UNSCOPED_INFO(tls << ": " << finished.err);
    CHECK_FALSE(says(stripper.heard(), "hunter2"));
    CHECK_FALSE(says(finished.err, "hunter2"));
    return std::pair(finished.exit, stripper.heard());
  };
  for (const auto& tls : {std::string("require"), "verify-ca" + ca, "verify-full" + ca}) {
    const auto [exit, heard] = through_stripper(tls);
    CHECK(exit == exited(78));
    CHECK(heard.empty());  // not even the user's name
  }
  for (const char* tls : {"off", "prefer"}) {
    const auto [exit, heard] = through_stripper(tls);
    // MySQL asks for the password itself, and does not get it.
    CHECK(exit == exited(mysql_run() ? 77 : 0));
    if (!mysql_run()) CHECK(says(heard, user));  // it really stood in between
  }
}

TEST_CASE("replies put into a connection before tls begins are believed by no subcommand",
          "[server][safety][other-servers]") {
  const Certificates certificates;
  const Server server(certificates.server_options("good"));
  ServerDatabase database(server.address());
  const TempDir directory;
  const std::string user = database.account("IDENTIFIED BY 'hunter2-hunter2'");
  const std::string ca = "&tls-ca=" + certificates.authority();
  LiveRun holder(database, {"--ttl", "10m"}, sleeping_job);
  const auto script = dblock(database, {"--json", "acquire", "--key", "s", "--ttl", "10m"});
  REQUIRE(script.exit == exited(0));
  const std::string owner = nlohmann::json::parse(script.out).at("owner");
  const std::string expires = database.column("s", "expire_time");
  const std::vector<Words> attempts{
      run_words("k", {}, {"touch", directory.file("ran")}),
      run_words("k", {"--shared"}, {"touch", directory.file("ran")}),
      run_words("k", {"--key", "l"}, {"touch", directory.file("ran")}),
      run_words("k", {"--wait", "1s"}, {"touch", directory.file("ran")}),
      {"acquire", "--key", "k", "--ttl", "1m"},
      {"acquire", "--key", "k", "--ttl", "1m", "--while-pid", std::to_string(::getpid())},
      {"renew", "--key", "s", "--owner", owner, "--ttl", "1h"},
      {"release", "--key", "s", "--owner", owner},
      {"inspect"},
      {"history"},
      {"reap"},
      {"migrate"},
      {"doctor"},
  };
  for (const auto& tls : {std::string("require"), "verify-ca" + ca, "verify-full" + ca}) {
    for (const int statements : {0, 1, 2, 3, 12}) {
      FakeServer meddler(Meddler(server.address().port, add_replies_to_greeting(statements)));
      const std::string url = url_through(meddler, database, user + ":hunter2-hunter2", "tls=" + tls);
      for (const auto& words : attempts) {
        const auto finished = dblock_at(url, words);
        INFO(tls << ", " << statements << ", " << words[0] << ": " << finished.out << finished.err);
        CHECK(finished.exit != exited(0));
        CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
      }
    }
  }
  CHECK(database.column("s", "expire_time") == expires);
  holder.signal(SIGTERM);
}

// A server that is reached over TLS alone, and who puts replies into so many connections to it as `attacks`
// says.
struct AttackedServer {
  const Certificates certificates;
  const Server server{certificates.server_options("good")};
  ServerDatabase database{server.address()};
  const std::string user = database.account("IDENTIFIED BY 'hunter2-hunter2'");
  const std::shared_ptr<std::atomic<int>> attacks = std::make_shared<std::atomic<int>>(0);
  FakeServer attacker{Meddler(server.address().port, [left = attacks](int number, std::string& part) {
    if (number == 0 && left->fetch_sub(1) > 0) add_replies_to_greeting(12)(number, part);
  })};
  const std::string url = url_through(attacker, database, user + ":hunter2-hunter2",
                                      "tls=verify-full&tls-ca=" + certificates.authority());
};

TEST_CASE("replies put into a reconnect before tls begins renew nothing", "[server][safety]") {
  AttackedServer t;
  const Words times{"--ttl", "3s", "--heartbeat", "400ms", "--kill-grace", "500ms"};
  LiveRun run(t.url, times, sleeping_job);
  await_renewal(t.database);
  *t.attacks = std::numeric_limits<int>::max();
  const auto sessions =
      t.database.sql("SELECT id FROM information_schema.processlist WHERE user='" + t.user + "'");
  REQUIRE_FALSE(sessions.empty());
  for (const auto& session : sessions) t.database.kill_session(session.at(0));
  const Exit exit = run.wait();
  INFO(run.err());
  CHECK(exit == exited(76));
}

TEST_CASE("replies put into the guardian's connection do not pass for the release",
          "[server][safety][asan-server]") {
  AttackedServer t;
  LiveRun run(t.url, {"--ttl", "10m"}, sleeping_job);
  *t.attacks = 1;
  run.signal(SIGKILL);
  CHECK(soon_free(t.database));
  CHECK(*t.attacks <= 0);
}

// One reply after the part of that number, on the first connection that comes so far.
Meddler::Change add_one_reply(int after) {
  return [after, done = std::make_shared<std::atomic<bool>>(false)](int number, std::string& part) {
    if (number == after && !done->exchange(true)) part += reply_that_all_is_well(1);
  };
}

TEST_CASE("a reply too many starts no job beside the holder's, wherever it comes",
          "[server][safety][other-servers][asan-server]") {
  ServerDatabase database;
  const TempDir directory;
  LiveRun holder(database, {"--ttl", "10m"}, sleeping_job);
  for (int after = 1; after <= 12; ++after) {
    for (const Words& options : {Words{}, Words{"--shared"}, Words{"--key", "l"}, Words{"--wait", "300ms"}}) {
      FakeServer meddler(Meddler(database.server().port, add_one_reply(after)));
      const std::string url = url_through(meddler, database, "app", "tls=off");
      const auto finished = dblock_at(url, run_words("k", options, {"touch", directory.file("ran")}));
      INFO("after " << after << ": " << finished.err);
      CHECK(finished.exit != exited(0));
      CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
    }
  }
  holder.signal(SIGTERM);
}

TEST_CASE("where no session tells its variables, another statement proves the replies",
          "[server][safety][other-servers][asan-server]") {
  ServerDatabase database;
  const TempDir directory;
  const auto run_through = [&](const Meddler::Change& change) {
    FakeServer meddler(Meddler(database.server().port, change));
    const std::string url = url_through(meddler, database, "app", "tls=off");
    auto finished = dblock_at(url, run_words("k", {}, {"touch", directory.file("ran")}));
    meddler.stop();
    return std::pair(std::move(finished), meddler.heard());
  };
  REQUIRE(run_true(database) == exited(0));
  const auto [plain, with_tracking] = run_through([](int, std::string&) {});
  REQUIRE(plain.exit == exited(0));
  const auto [proved, heard] = run_through(take_tracking_out);
  INFO(proved.err);
  CHECK(proved.exit == exited(0));
  const std::string another = "\3SELECT ";  // as a statement of its own: COM_QUERY comes before
  CHECK(count_of(heard, another) == count_of(with_tracking, another) + 1);
  REQUIRE(std::filesystem::remove(directory.file("ran")));
  LiveRun holder(database, {"--ttl", "10m"}, sleeping_job);
  for (int after = 1; after <= 6; ++after) {
    const auto [refused, words] = run_through([add = add_one_reply(after)](int number, std::string& part) {
      take_tracking_out(number, part);
      add(number, part);
    });
    INFO("after " << after << ": " << refused.err);
    CHECK(refused.exit != exited(0));
    CHECK_FALSE(std::filesystem::exists(directory.file("ran")));
  }
  holder.signal(SIGTERM);
}

TEST_CASE("a reply too many is not taken for a renewal's", "[server][safety][other-servers]") {
  ServerDatabase database;
  constexpr int k_grant = 3;  // after greeting, login and set-up, where the key's row is there
  REQUIRE(run_true(database) == exited(0));
  FakeServer meddler(Meddler(database.server().port, add_one_reply(k_grant)));
  const std::string url = url_through(meddler, database, "app", "tls=off");
  LiveRun run(url, {"--heartbeat", "200ms", "--verbose"});
  CHECK(soon_says(run, "the reply is not to what was asked"));
  CHECK(run.end() == exited(0));
}

// In a reply "done": behind its header and first byte come two numbers of one byte and as many more as the
// byte says, then the state of the session.
void tell_of_transaction(std::string& part) {
  constexpr std::size_t k_state_after = 2;
  std::size_t at = 5;
  for (std::size_t number = 0; number < k_state_after && at < part.size(); ++number) {
    const auto first = static_cast<unsigned char>(part[at]);
    at += first == 0xfe ? 9 : first == 0xfd ? 4 : first == 0xfc ? 3 : 1;
  }
  if (at < part.size()) part[at] = static_cast<char>(static_cast<unsigned char>(part[at]) | 1U);
}

TEST_CASE("a reply that tells of a transaction where none should be open is taken for no grant or renewal",
          "[server][safety][other-servers][asan-server]") {
  ServerDatabase database;
  REQUIRE(run_true(database) == exited(0));
  const int reply = GENERATE(3, 4);  // after greeting, login and set-up: to the grant, to the first renewal
  CAPTURE(reply);
  std::atomic<bool> told = false;
  FakeServer meddler(Meddler(database.server().port, [&](int number, std::string& part) {
    if (number == reply && !told.exchange(true)) tell_of_transaction(part);
  }));
  const std::string url = url_through(meddler, database, "app", "tls=off");
  LiveRun run(url, {"--heartbeat", "200ms", "--verbose"});
  CHECK(soon_says(run, "the reply is not to what was asked (a transaction is open)"));
  CHECK(told);
  CHECK(run.end() == exited(0));
}

}  // namespace
}  // namespace dblock::test
