// Servers that are not what they seem: they ask for files and passwords, or send nonsense.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "support/catch.hpp"
#include "support/dblock.hpp"
#include "support/fake_server.hpp"
#include "support/steps.hpp"

namespace dblock::test {
namespace {

using namespace std::string_literals;

constexpr const char* k_secret = "the-content-of-a-local-file";
constexpr const char* k_asked_password = "hunter2-hunter2";

const std::vector<Words>& all_commands() {
  static const std::vector<Words> all{
      run_words("k", {"--ttl", "1s"}, {"true"}),
      run_words("k", {"--ttl", "1s", "--shared"}, {"true"}),
      run_words("k", {"--ttl", "1s", "--key", "l"}, {"true"}),
      {"acquire", "--key", "k", "--ttl", "1s"},
      {"renew", "--key", "k", "--owner", "x"},
      {"release", "--key", "k", "--owner", "x"},
      {"inspect"},
      {"reap"},
      {"migrate"},
      {"doctor"},
  };
  return all;
}

// Answers with "done" `before` times, then with "send me FILE".
class FileThief {
 public:
  FileThief(std::string file, int before) : file_(std::move(file)), before_(before) {}
  void operator()(Wire& wire) {
    wire.greet();
    if (!wire.receive()) return;
    if (before_ == 0) return ask(wire);
    wire.ok();
    for (int answered = 1; wire.receive(); ++answered) {
      if (answered < before_) {
        wire.ok(1);
      } else {
        ask(wire);
      }
    }
  }
  std::atomic<int> asked = 0;

 private:
  void ask(Wire& wire) {
    ++asked;
    wire.send(file_request(file_));
    (void)wire.receive();  // what it is all about
    wire.ok(1);
  }
  std::string file_;
  int before_;
};

TEST_CASE("a server that asks for a local file gets nothing, whenever it asks",
          "[server][other-servers][asan-server]") {
  const TempDir directory;
  write_file(directory.file("secret"), std::string(k_secret) + "\n");
  for (int before = 0; before <= 4; ++before) {
    FileThief thief(directory.file("secret"), before);
    FakeServer rogue([&](Wire& wire) { thief(wire); });
    for (const Words& words : all_commands()) {
      const auto finished = dblock_at(rogue.url(), words);
      INFO(words[0] << " after " << before << ": " << finished.err);
      CHECK_FALSE(finished.exit.signalled);
      CHECK_FALSE(says(finished.out + finished.err, k_secret));
    }
    rogue.stop();
    INFO("after " << before);
    CHECK(thief.asked > 0);
    CHECK_FALSE(says(rogue.heard(), k_secret));
  }
}

TEST_CASE("dblock tells no server that it would send files or several statements at once",
          "[server][asan-server]") {
  std::string login;
  FakeServer rogue([&](Wire& wire) {
    wire.greet();
    login = wire.receive().value_or("");
  });
  dblock_at(rogue.url(), {"inspect"});
  rogue.stop();
  REQUIRE(login.size() > 4);
  constexpr unsigned char k_local_files = 0x80;         // of the first byte
  constexpr unsigned char k_multiple_statements = 0x1;  // of the third
  CHECK((static_cast<unsigned char>(login[0]) & k_local_files) == 0);
  CHECK((static_cast<unsigned char>(login[2]) & k_multiple_statements) == 0);
}

// Lets the client begin to log in, asks for `plugin` instead and then goes on as that plugin would when it
// wants the password itself. What the client says after its first packet is what it gives away.
std::string given_away(const std::string& plugin, const std::string& tls, const std::string& key) {
  std::string given;
  FakeServer rogue([&](Wire& wire) {
    wire.greet(plugin);
    if (!wire.receive()) return;
    for (const std::string& demand : {plugin_request(plugin), "\x01\x04"s, "\x01"s + key}) {
      wire.send(demand);
      const auto answer = wire.receive();
      if (!answer) return;
      given += *answer;
    }
  });
  const auto finished =
      dblock_at(rogue.url("app:" + std::string(k_asked_password), "?tls=" + tls), {"inspect"});
  rogue.stop();
  INFO(plugin << " with tls=" << tls << ": " << finished.err);
  CHECK(finished.exit != exited(0));
  CHECK_FALSE(finished.exit.signalled);
  CHECK_FALSE(says(rogue.heard(), k_asked_password));
  CHECK_FALSE(says(finished.err, k_asked_password));
  return given;
}

std::string public_key() {
  const TempDir directory;
  const auto made = run_program({.argv = {"openssl", "genrsa", "-out", directory.file("key"), "2048"}});
  REQUIRE(made.exit == exited(0));
  const auto shown = run_program({.argv = {"openssl", "rsa", "-in", directory.file("key"), "-pubout"}});
  REQUIRE(says(shown.out, "PUBLIC KEY"));
  return shown.out;
}

TEST_CASE("a server without tls that asks for the password itself is told nothing more",
          "[server][other-servers][asan-server]") {
  const std::string key = public_key();
  for (const char* tls : {"off", "prefer"}) {
    for (const char* plugin : {"mysql_clear_password", "dialog", "caching_sha2_password", "sha256_password",
                               "mysql_old_password", "no_such_plugin"}) {
      CAPTURE(tls, plugin);
      CHECK(given_away(plugin, tls, key).empty());
    }
    // A hash that answers a challenge is all that may leave.
    const auto scramble = given_away("mysql_native_password", tls, key);
    CHECK(scramble.size() <= 20);
  }
}

TEST_CASE("a login that hands the password over is met with what proves the server, not with tls=require",
          "[server][other-servers][asan-server]") {
  FakeServer rogue([&](Wire& wire) {
    wire.greet("mysql_clear_password");
    if (!wire.receive()) return;
    wire.send(plugin_request("mysql_clear_password"));
    static_cast<void>(wire.receive());
  });
  const auto finished = dblock_at(rogue.url("app", "?tls=off"), {"inspect"});
  rogue.stop();
  INFO(finished.err);
  CHECK(finished.exit == exited(77));
  CHECK(says(finished.err, "tls=verify-full"));
  CHECK_FALSE(says(finished.err, "tls=require"));
}

TEST_CASE("a way to log in that dblock does not know is refused where the password would be safe, too",
          "[server][asan-server]") {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/tmp/dblock-rogue-" + std::to_string(::getpid());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  const std::jthread rogue([&] {
    const int client = ::accept(listener, nullptr, nullptr);
    Wire wire(client);
    wire.greet();
    if (wire.receive()) wire.send(plugin_request("no_such_plugin"));
    static_cast<void>(wire.receive());
    ::close(client);
    ::close(listener);
  });
  const auto refused = dblock_at("mysql://app:hunter2@localhost/d?socket=" + path, {"inspect"});
  ::unlink(path.c_str());
  check_ended(refused, 77, {"a way to log in that dblock never uses"});
}

// What a server may say at any point, and worse.
std::vector<std::string> nonsense() {
  std::vector<std::string> all{
      "",
      "\xff",
      "\xff\x15",
      "\xff\xff\xff",
      "\xfe",
      "\xfb",
      "\0"s,
      "\0\xff\xff\xff\xff\xff\xff\xff\xff"s,
      "\x01",
      "\x02",
      "\xfc\xff\xff",
      "\xfd\xff\xff\xff",
      "\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
      "\x0a",
      "\x0a" + std::string(300, 'x'),
      std::string(70'000, '\xfa'),
      std::string(1000, '\0'),
      std::string(1000, '\xff'),
  };
  std::minstd_rand random(20261121);
  std::uniform_int_distribution<int> byte(0, 255);
  for (std::size_t size = 1; size < 40; ++size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(byte(random));
    all.push_back(text);
  }
  return all;
}

// A header that promises more than comes, or names another packet than the next one.
std::vector<std::string> broken_frames() {
  return {"\xff\xff\xff\0"s,
          "\xff\xff\xff\0"s + std::string(5000, 'x'),
          "\x05\0\0\0ab"s,
          "\0\0\0\0"s,
          "\0\0\0\x01"s,
          "\x01\0\0\x63\0"s,
          "\x01"s,
          "\x03\0\0\x01\x01\0"s,
          std::string(9, '\xff')};
}

void survives(const FakeServer::Talk& talk, const Words& words) {
  FakeServer rogue(talk);
  const auto finished = dblock_at(rogue.url("app:" + std::string(k_asked_password)), words);
  INFO(words[0] << ": " << finished.err);
  CHECK_FALSE(finished.exit.signalled);
  CHECK_FALSE(says(finished.err, "anitizer"));
  CHECK_FALSE(says(finished.err, k_asked_password));
}

TEST_CASE("nonsense from a server ends in an error and never in a crash",
          "[server][other-servers][asan-server]") {
  for (const auto& payload : nonsense()) {
    CAPTURE(payload.size(), payload.substr(0, 12));
    // libmariadb 3.3 reads through a null pointer when it is greeted with error 65535, "progress report".
    if (!payload.starts_with("\xff\xff\xff")) survives([&](Wire& wire) { wire.send(payload); }, {"inspect"});
    const auto instead_of_ok = [&](Wire& wire) {
      wire.greet();
      if (wire.receive()) wire.send(payload);
    };
    survives(instead_of_ok, {"inspect"});
    const auto to_a_query = [&](Wire& wire) {
      if (wire.let_in() && wire.receive()) wire.ok();
      if (wire.receive()) wire.send(payload);
    };
    survives(to_a_query, {"inspect"});
  }
}

// A result of one column, up to its rows.
void begin_rows(Wire& wire) {
  const std::string column =
      "\x03"
      "def\0\0\0\x01"
      "a\0\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0"s;
  for (const auto& packet : {"\x01"s, column, "\xfe\0\0\x02\0"s}) wire.send(packet);
}

TEST_CASE("broken frames and broken rows from a server end in an error",
          "[server][other-servers][asan-server]") {
  for (const auto& bytes : broken_frames()) {
    survives([&](Wire& wire) { wire.send_raw(bytes); }, {"inspect"});
    const auto to_a_query = [&](Wire& wire) {
      if (wire.let_in() && wire.receive()) wire.ok();
      if (wire.receive()) wire.send_raw(bytes);
    };
    survives(to_a_query, {"inspect"});
  }
  // A row whose cell is longer than its packet.
  for (const auto& row : {"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"s,
                          "\xfc\xff\x7f"s
                          "ab",
                          "\x20"s
                          "ab",
                          ""s, "\xfb\xfb\xfb"s}) {
    const auto result = [&](Wire& wire) {
      if (!wire.let_in()) return;
      while (const auto statement = wire.receive()) {
        if (says(*statement, "SET ")) {
          wire.ok();
          continue;
        }
        begin_rows(wire);
        for (const auto& packet : {row, "\xfe\0\0\x02\0"s}) wire.send(packet);
      }
    };
    for (const Words& words : {Words{"inspect"}, Words{"doctor"}, Words{"migrate", "--status"}})
      survives(result, words);
  }
}

// Lets everybody in, and answers the first statement that is no setting with `packets`, again and again until
// the client has had enough or `most` bytes are on their way. How many were.
std::size_t taken_of(const std::string& packets, std::size_t most, const Words& words, Finished& finished) {
  std::atomic<std::size_t> taken = 0;
  FakeServer rogue([&](Wire& wire) {
    if (!wire.let_in()) return;
    while (const auto statement = wire.receive()) {
      if (says(*statement, "SET ") || says(*statement, "UPDATE ")) {
        wire.ok();
        continue;
      }
      begin_rows(wire);
      pollfd room{wire.fd(), POLLOUT | POLLRDHUP, 0};
      std::size_t sent = 0;
      while (sent < most && ::poll(&room, 1, -1) == 1 && room.revents == POLLOUT) {
        const std::string_view rest = std::string_view(packets).substr(sent % packets.size());
        const ssize_t more = ::send(wire.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (more <= 0) break;
        sent += static_cast<std::size_t>(more);
      }
      taken += sent;
      return;
    }
  });
  finished = dblock_at(rogue.url(), words);
  rogue.stop();
  return taken;
}

TEST_CASE("rows without end from a server end in an error before they fill the memory",
          "[server][asan-server]") {
  constexpr std::size_t k_cell = 60'000;
  constexpr std::size_t k_most = std::size_t{200} << 20U;
  std::string row = "\x63\xea\0"s;  // the packet's length, and a number that nobody looks at
  row += '\x05';
  row += "\xfc\x60\xea"s + std::string(k_cell, 'x');
  for (const Words& words : {run_words("k", {}, {"true"}), Words{"doctor"}}) {
    Finished finished;
    const auto taken = taken_of(row, k_most, words, finished);
    INFO(words[0] << ": " << finished.err << finished.out);
    CHECK(finished.exit == exited(words[0] == "doctor" ? 78 : 69));
    CHECK(taken < k_most / 4);
    if (words[0] != "doctor") CHECK(says(finished.err, "more rows than dblock's tables could hold"));
  }
}

TEST_CASE("a packet that never ends is given up before it fills the memory", "[server][asan-server]") {
  constexpr std::size_t k_most = std::size_t{200} << 20U;
  const std::string part = "\xff\xff\xff\x05" + std::string(0xffffff, 'x');
  Finished finished;
  const auto taken = taken_of(part, k_most, {"inspect"}, finished);
  INFO(finished.err);
  CHECK(finished.exit == exited(69));
  CHECK(taken < k_most / 2);
}

}  // namespace
}  // namespace dblock::test
