// A server that harms what it says, before and after the login: dblock's session ends with an error or a
// right answer, and no lease is granted that no reply of the server grants. What a real server said was
// recorded (DBLOCK_FUZZ_RECORD, below); the input is such a recording, harmed.
//
// The recording fits each time because dblock draws the same "random" numbers each time: see getrandom().
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "fuzz/fuzz.hpp"
#include "fuzz/workplace.hpp"
#include "store/facts.hpp"
#include "store/mariadb/sql.hpp"
#include "store/open.hpp"
#include "support/packets.hpp"

namespace {

// What getrandom() says next; each input starts anew.
std::uint64_t g_drawn = 0;

}  // namespace

extern "C" ssize_t getrandom(void* buffer, std::size_t size, unsigned) {
  for (std::size_t i = 0; i < size; ++i) {
    g_drawn = g_drawn * 6364136223846793005U + 1442695040888963407U;
    static_cast<std::uint8_t*>(buffer)[i] = static_cast<std::uint8_t>(g_drawn >> 56U);
  }
  return static_cast<ssize_t>(size);
}

namespace dblock::fuzz {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

#ifdef DBLOCK_FUZZ
constexpr auto k_timeout = 1s;
constexpr int k_patience_ms = 50;  // a client that waits for what will not come need not wait long
#else
constexpr auto k_timeout = 4s;         // a busy machine is not silent
constexpr int k_patience_ms = 20'000;  // a busy client is no client that waits: its own timeout ends that
#endif
constexpr const char* k_record = "DBLOCK_FUZZ_RECORD";

// What the server says at one time: its greeting, or the reply to one packet of the client.
struct Saying {
  bool greets = false;
  bool hangs_up = false;  // afterwards
  std::string bytes;
};

// One input's conversation, which the server's thread shares with the client.
struct Exchange {
  std::vector<Saying> sayings;
  std::size_t next = 0;
  std::string statement;              // the client's last
  std::vector<std::uint64_t> grants;  // the tokens that replies to granting statements tell
  std::string heard;                  // all that the server said
};

std::mutex g_mutex;
std::shared_ptr<Exchange> g_exchange;

// A length-encoded number at the front of `text`, which it takes off.
std::uint64_t take_number(std::string_view& text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t size = lead == 0xfc ? 2 : lead == 0xfd ? 3 : lead == 0xfe ? 8 : 0;
  std::uint64_t number = size == 0 ? lead : 0;
  for (std::size_t i = 0; i < size && i + 1 < text.size(); ++i)
    number |= std::uint64_t{static_cast<std::uint8_t>(text[i + 1])} << (8 * i);
  text.remove_prefix(std::min(text.size(), size + 1));
  return number;
}

// Notes the token that a reply grants: an OK that tells of changed rows, and of the number that the statement
// asks for, to a statement that makes the request the lock's owner.
void note_grant(Exchange& exchange, std::string_view reply) {
  const bool grants = exchange.statement.find("lock_value") != std::string::npos &&
                      exchange.statement.find("LAST_INSERT_ID(") != std::string::npos;
  if (!grants || reply.size() <= test::k_packet_header + 1 || reply[test::k_packet_header] != '\0') return;
  reply.remove_prefix(test::k_packet_header + 1);
  if (take_number(reply) == 0) return;
  exchange.grants.push_back(take_number(reply) / store::mariadb::k_marks);
}

// Reads until `size` bytes are there. False where the client has gone, or waits for something.
bool fill(int fd, std::string& bytes, std::size_t size) {
  while (bytes.size() < size) {
    pollfd entry{fd, POLLIN, 0};
    char block[4096];
    if (::poll(&entry, 1, k_patience_ms) <= 0) return false;
    const ssize_t got = ::recv(fd, block, std::min(sizeof block, size - bytes.size()), 0);
    if (got <= 0) return false;
    bytes.append(block, static_cast<std::size_t>(got));
  }
  return true;
}

bool is_quit(const std::string& packet) {
  return packet.size() > test::k_packet_header &&
         static_cast<unsigned char>(packet[test::k_packet_header]) == test::k_com_quit;
}

bool receive(int fd, std::string& packet) {
  packet.clear();
  return fill(fd, packet, test::k_packet_header) &&
         fill(fd, packet, test::k_packet_header + test::little_endian(packet, 0, 3));
}

// True for a first packet with the error 65535. libmariadb 3.3 takes it for a report of progress, asks for
// the server's version, which it has not read yet, and reads address 0.
bool ends_the_library(std::string_view greeting) {
  return greeting.substr(std::min(greeting.size(), test::k_packet_header)).starts_with("\xff\xff\xff");
}

// True where the conversation goes on.
bool say(int fd, Exchange& exchange, bool greeting) {
  Saying saying;
  {
    const std::lock_guard lock(g_mutex);
    auto& at = exchange.next;
    while (greeting && at < exchange.sayings.size() && !exchange.sayings[at].greets) ++at;
    if (at >= exchange.sayings.size()) return false;
    saying = exchange.sayings[at++];
    if (!greeting) note_grant(exchange, saying.bytes);
    exchange.heard += saying.bytes;
  }
  if (greeting && ends_the_library(saying.bytes)) return false;
  return test::send_all(fd, saying.bytes) && !saying.hangs_up;
}

void converse(int fd) {
  std::shared_ptr<Exchange> exchange;
  {
    const std::lock_guard lock(g_mutex);
    exchange = g_exchange;
  }
  std::string packet;
  if (!exchange || !say(fd, *exchange, true)) return;
  while (receive(fd, packet)) {
    if (is_quit(packet)) return;
    {
      const std::lock_guard lock(g_mutex);
      exchange->statement = packet;
    }
    if (!say(fd, *exchange, false)) return;
  }
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Recording, for a human: DBLOCK_FUZZ_RECORD is a real server's socket, and the conversation goes to
// recording-N in the present folder. A reply ends where the server has been silent for a while.
void record(int client, const char* server_path) {
  static int number = 0;
  const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = address_of(server_path);
  if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
  std::ofstream file("recording-" + std::to_string(number++), std::ios::binary);
  std::string packet;
  for (bool greeting = true; greeting || (receive(client, packet) && !is_quit(packet)); greeting = false) {
    if (!greeting && !test::send_all(server, packet)) break;
    std::string reply;
    pollfd entry{server, POLLIN, 0};
    while (::poll(&entry, 1, 300) > 0) {
      char block[4096];
      const ssize_t got = ::recv(server, block, sizeof block, 0);
      if (got <= 0) break;
      reply.append(block, static_cast<std::size_t>(got));
    }
    if (greeting) test::hide_tls(reply);
    file << (greeting ? '\x01' : '\0') << static_cast<char>(reply.size() >> 8U)
         << static_cast<char>(reply.size()) << reply << std::flush;
    if (!test::send_all(client, reply)) break;
  }
  ::close(server);
}

void serve(int listener) {
  for (int fd = 0; (fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(fd)) {
    const char* const server = std::getenv(k_record);
    server == nullptr ? converse(fd) : record(fd, server);
  }
}

// Where the server listens; it starts with the first input, and one connection at a time is served.
const std::string& server_socket() {
  static const std::string path = [] {
    const std::string made = workplace() + "/server.sock";
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto address = address_of(made);
    if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener, 8) != 0)
      std::abort();
    std::thread(serve, listener).detach();
    return made;
  }();
  return path;
}

store::MariadbSettings settings() {
  store::MariadbSettings settings;
  settings.socket = server_socket();
  settings.database = "dblock";
  settings.user = "jobs";
  settings.password = "secret";
  settings.tls = store::TlsMode::off;
  settings.connect_timeout = k_timeout;
  settings.connection = store::HolderSession::keep;
  return settings;
}

// A saying: what it is (1: greets, 2: hangs up afterwards), two bytes of length, the packets.
std::vector<Saying> sayings_in(Input& input) {
  std::vector<Saying> sayings;
  while (!input.empty() && sayings.size() < 64) {
    const auto kind = input.byte();
    std::string bytes = input.bytes(input.number());
    sayings.push_back({(kind & 1U) != 0, (kind & 2U) != 0, std::move(bytes)});
  }
  return sayings;
}

lease::LeaseRequest request_for(unsigned what) {
  lease::LeaseRequest request{*lease::Key::parse("k"), {}, {"jobs-1-20261129T000000Z-0123456789abcdef"}};
  request.terms = {1min, 3s, 10s};
  request.holder = {"host", 42, "user", "etl", "note"};
  if (what == 1) request.sharing = {lease::Mode::shared, 1};
  return request;
}

void check_error(const Error& error) {
  demand(!error.message.empty() && error.code != Errc::internal, "a harmed reply is no bug", error.message);
  demand(error.message.find("secret") == std::string::npos, "a password is never shown", error.message);
}

// A grant is what a reply says, with its token; or the row that carries our own owner id, which needs proof.
void check_granted(const lease::Granted& granted, const lease::LeaseRequest& request) {
  if (std::getenv(k_record) != nullptr) return;
  const std::lock_guard lock(g_mutex);
  const auto& said = g_exchange->grants;
  const bool by_reply = std::ranges::find(said, granted.lease.token.value) != said.end();
  const bool by_row =
      granted.lease.needs_renewal_proof && g_exchange->heard.find(request.owner.text) != std::string::npos;
  demand(by_reply || by_row, "a grant is what the server said");
}

std::string_view acquire(lease::LockBook& store, unsigned what) {
  const auto request = request_for(what);
  const auto answer = store.try_acquire(request);
  if (!answer) {
    check_error(answer.error());
    return "error";
  }
  if (!std::holds_alternative<lease::Granted>(*answer)) return "refused";
  check_granted(std::get<lease::Granted>(*answer), request);
  store.hold(lease::LeaseStore::RenewedBy::this_store);
  const auto ref = lease::ref_to(std::get<lease::Granted>(*answer).lease);
  const auto renewed = store.renew(ref, lease::Actor::holder, 1min);
  if (!renewed) check_error(renewed.error());
  const auto released = store.release(ref, lease::Actor::holder, {lease::RunOutcome::succeeded, 0});
  if (!released) check_error(released.error());
  store.end();
  return released && std::holds_alternative<lease::Released>(*released) ? "released" : "granted";
}

template <typename T>
std::string_view end_of(const Result<T>& result, std::string_view good) {
  if (!result) check_error(result.error());
  return result ? good : "error";
}

// `what`: 0 and 1 take the lock, alone and as a reader; then the ways to look.
std::string_view use(lease::LockBook& store, unsigned what) {
  if (what <= 1) return acquire(store, what);
  if (what == 2) return end_of(store.list({.held_only = false, .with_pauses = true}), "listed");
  if (what == 3) return end_of(store.history({}), "history");
  if (what == 4) {
    const auto request = request_for(0);
    const auto arrival = store.stand_in_line(request, 1min, true);
    const auto seen = store.look_in_line(request);
    if (!seen) check_error(seen.error());
    store.leave_line(request);
    return end_of(arrival, "stood");
  }
  const auto facts = store::gather_facts(settings());
  (void)facts;
  return "examined";
}

std::string_view run_protocol(Input input) {
  g_drawn = 0;
  const unsigned what = input.byte() % 6;
  auto exchange = std::make_shared<Exchange>();
  exchange->sayings = sayings_in(input);
  (void)server_socket();
  {
    const std::lock_guard lock(g_mutex);
    g_exchange = exchange;
  }
  static SystemClock clock;
  const auto begun = BootClock::now();
  const auto store = store::open_store(settings(), {.network_timeout = k_timeout}, clock);
  const auto end = use(*store, what);
  // Each of a few calls may wait for its timeout, and close() for the library.
  demand(BootClock::now() - begun < 120s, "no call outlasts its timeout");
  return end;
}

}  // namespace
}  // namespace dblock::fuzz

DBLOCK_FUZZ_TARGET(protocol, dblock::fuzz::run_protocol)
