#include "support/proxy.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace dblock::test {
namespace {

constexpr unsigned char k_com_stmt_prepare = 0x16;
constexpr unsigned char k_com_stmt_execute = 0x17;
constexpr std::uint32_t k_last_prepared = 0xffffffff;  // libmariadb's "the statement just prepared"
constexpr std::uint32_t k_deprecates_eof = 1U << 24U;  // a capability in dblock's half of the login

// Appends what has come; false when the other side has hung up.
bool receive(int fd, std::string& stream) {
  char part[16384];
  const ssize_t got = ::recv(fd, part, sizeof part, 0);
  if (got > 0) stream.append(part, static_cast<std::size_t>(got));
  return got > 0;
}

// Waits for it; empty when the server has hung up.
std::string take_packet_of(int server, std::string& stream) {
  for (;;) {
    std::string packet = take_packet(stream);
    if (!packet.empty() || !receive(server, stream)) return packet;
  }
}

// The first packet of a command, not of the handshake, nor the second of a long command.
bool is_command(const std::string& packet) {
  return packet.size() > k_packet_header && packet[3] == 0;
}

}  // namespace

struct Proxy::Link {
  Link(std::size_t number, int client_fd, int server_fd, int second_fd)
      : connection(number), client(client_fd), server(server_fd), second(second_fd) {}
  ~Link() {
    for (const int fd : {client, server, second}) {
      if (fd >= 0) ::close(fd);
    }
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // What the packet asks for: the text of a query, or of the prepared statement that is executed.
  std::string statement_in(const std::string& packet);

  std::size_t connection;
  int client, server;
  int second;                                               // -1: everything goes to the server
  std::string from_client{}, from_server{}, from_second{};  // not yet whole packets
  bool in_transaction = false;
  bool pinned = false;
  bool turn = false;
  bool dead = false;
  bool swallow_reply = false;  // cut as soon as the server answers
  bool mute = false;           // what the server says is thrown away
  bool swallow_first = false;  // of two replies to one command
  ReplyEnd first_reply{};
  bool preparing = false;    // the server's next packet answers a prepare
  bool logged_in = false;    // dblock's half of the login has been seen
  bool without_eof = false;  // so they have agreed
  std::string last_prepared{};
  std::map<std::uint32_t, std::string> prepared{};
};

std::string Proxy::Link::statement_in(const std::string& packet) {
  if (!is_command(packet)) return "";
  const auto command = static_cast<unsigned char>(packet[k_packet_header]);
  std::string rest = packet.substr(k_packet_header + 1);
  if (command == k_com_query) return rest;
  if (command == k_com_stmt_prepare) {
    last_prepared = rest;
    preparing = true;
  }
  if (command != k_com_stmt_execute || rest.size() < 4) return "";
  const std::uint32_t id = little_endian(rest, 0, 4);
  return id == k_last_prepared ? last_prepared : prepared[id];
}

Proxy::Proxy(ServerAddress upstream) : upstream_(std::move(upstream)) {
  listener_ = listen_on_loopback(port_);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { loop(); });
}

Proxy::~Proxy() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ::eventfd_write(wake_, 1);
  thread_.join();
  ::close(listener_);
  ::close(wake_);
  if (held_server_ >= 0) ::close(held_server_);
}

std::string Proxy::url(const std::string& database, const std::string& user) const {
  return "mysql://" + user + "@" + host() + "/" + database;
}

std::string with_host(std::string url, const std::string& host) {
  return url.insert(url.rfind('/'), "," + host);
}

void Proxy::cut(Cut how, std::function<bool(const std::string&)> matches, int times) {
  const std::lock_guard lock(mutex_);
  how_ = how;
  matches_ = std::move(matches);
  times_ = times;
}

int Proxy::cuts() const {
  const std::lock_guard lock(mutex_);
  return cuts_;
}

int Proxy::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

void Proxy::refuse_statements(std::function<bool(const std::string&)> matches, std::uint16_t error,
                              std::string text) {
  const std::lock_guard lock(mutex_);
  refused_ = std::move(matches);
  const std::string payload =
      std::string{'\xff', static_cast<char>(error & 0xffU), static_cast<char>(error >> 8U)} + "#42000" + text;
  refusal_ = std::string{static_cast<char>(payload.size()), '\0', '\0', '\1'} + payload;
}

void Proxy::harm(Harm harm, std::size_t at) {
  const std::lock_guard lock(mutex_);
  harm_ = harm;
  harmed_ = at;
}

bool Proxy::deliver() {
  const std::lock_guard lock(mutex_);
  const int server = std::exchange(held_server_, -1);
  if (server < 0) return false;
  // A server that has hung up will not hear it, which is an end as well.
  bool answered = !send_all(server, held_back_);
  if (!answered) {
    pollfd entry{server, POLLIN, 0};
    answered = ::poll(&entry, 1, 5000) > 0;
  }
  ::close(server);
  return answered;
}

void Proxy::stall() {
  const std::lock_guard lock(mutex_);
  stalled_ = true;
}

void Proxy::resume() {
  {
    const std::lock_guard lock(mutex_);
    stalled_ = false;
  }
  ::eventfd_write(wake_, 1);
}

void Proxy::refuse(bool on) {
  const std::lock_guard lock(mutex_);
  refuse_ = on;
}

void Proxy::read_from(const ServerAddress& replica) {
  const std::lock_guard lock(mutex_);
  second_ = replica.socket;
  moves_ = false;
}

void Proxy::move_statements() {
  const std::lock_guard lock(mutex_);
  second_ = upstream_.socket;
  moves_ = true;
}

void Proxy::set_time(const std::string& seconds) {
  const std::lock_guard lock(mutex_);
  time_ = seconds;
}

std::string Proxy::with_time(std::string packet) {
  constexpr const char* k_own = "timestamp=DEFAULT";
  const std::lock_guard lock(mutex_);
  const auto at = time_.empty() ? std::string::npos : packet.find(k_own);
  if (at == std::string::npos) return packet;
  packet.replace(at, std::strlen(k_own), "timestamp=" + time_);
  const std::size_t length = packet.size() - k_packet_header;
  for (std::size_t i = 0; i < 3; ++i) packet[i] = static_cast<char>(length >> (8 * i) & 0xffU);
  return packet;
}

void Proxy::cut_all() {
  {
    const std::lock_guard lock(mutex_);
    cut_all_ = true;
  }
  ::eventfd_write(wake_, 1);
}

void Proxy::delay(milliseconds time) {
  const std::lock_guard lock(mutex_);
  delay_ = time;
}

std::vector<Packet> Proxy::packets() const {
  const std::lock_guard lock(mutex_);
  return packets_;
}

std::vector<std::string> Proxy::statements() const {
  std::vector<std::string> texts;
  for (Packet& packet : packets()) {
    if (!packet.text.empty()) texts.push_back(std::move(packet.text));
  }
  return texts;
}

void Proxy::forget_statements() {
  const std::lock_guard lock(mutex_);
  packets_.clear();
}

void Proxy::loop() {
  for (;;) {
    bool stalled = false;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) break;
      if (std::exchange(cut_all_, false)) links_.clear();
      stalled = stalled_;
    }
    std::vector<pollfd> entries{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    if (!stalled) {
      for (const auto& link : links_) {
        entries.push_back({link->client, POLLIN, 0});
        entries.push_back({link->server, POLLIN, 0});
      }
    }
    ::poll(entries.data(), entries.size(), 1000);
    eventfd_t count = 0;
    if (entries[0].revents != 0) ::eventfd_read(wake_, &count);
    for (std::size_t i = 2; i < entries.size(); i += 2) {
      Link& link = *links_[i / 2 - 1];
      if (entries[i].revents != 0) from_client(link);
      if (!link.dead && entries[i + 1].revents != 0) from_server(link);
    }
    std::erase_if(links_, [](const auto& link) { return link->dead; });
    if (entries[1].revents != 0) accept_one();
  }
  links_.clear();
}

void Proxy::accept_one() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  bool refuse = false;
  std::string second;
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = static_cast<std::size_t>(connections_++);
    refuse = refuse_;
    second = second_;
  }
  const int server = refuse ? -1 : connect_unix(upstream_.socket);
  if (server < 0) {
    ::close(client);
    return;
  }
  links_.push_back(
      std::make_unique<Link>(number, client, server, second.empty() ? -1 : connect_unix(second)));
  // Its greeting; the login that answers the server's is good for an account without a password.
  if (!second.empty()) take_packet_of(links_.back()->second, links_.back()->from_second);
}

void Proxy::from_client(Link& link) {
  link.dead = !receive(link.client, link.from_client);
  for (std::string packet; !link.dead && !(packet = take_packet(link.from_client)).empty();)
    pass_to_server(link, packet);
}

void Proxy::from_server(Link& link) {
  link.dead = !receive(link.server, link.from_server) || link.swallow_reply;
  std::string passed;
  for (std::string packet; !link.dead && !(packet = take_packet(link.from_server)).empty();)
    pass_to_client(link, std::move(packet), passed);
  milliseconds wait{0};
  {
    const std::lock_guard lock(mutex_);
    wait = delay_;
  }
  if (wait > 0ms && !passed.empty()) pause_for(wait);
  if (!send_all(link.client, passed)) link.dead = true;
}

Harm Proxy::note(Packet packet) {
  const std::lock_guard lock(mutex_);
  packets_.push_back(std::move(packet));
  return packets_.size() - 1 == harmed_ ? harm_ : Harm::none;
}

void Proxy::pass_to_server(Link& link, const std::string& packet) {
  const bool command = is_command(packet);
  if (!command && !std::exchange(link.logged_in, true) && packet.size() >= k_packet_header + 4)
    link.without_eof = (little_endian(packet, k_packet_header, 4) & k_deprecates_eof) != 0;
  const std::string text = link.statement_in(packet);
  const Harm harm = note({link.connection, true, command, text});
  if (harm != Harm::none) return harm_from_client(link, packet, harm);
  if (!text.empty() && !on_statement(link, text)) return;
  if (link.second >= 0 && done_elsewhere(link, packet)) return;
  if (!send_all(link.server, with_time(packet))) link.dead = true;
}

void Proxy::harm_from_client(Link& link, const std::string& packet, Harm harm) {
  link.dead = harm != Harm::twice;
  if (harm == Harm::cut_after) static_cast<void>(send_all(link.server, packet));
  if (harm == Harm::late) {
    const std::lock_guard lock(mutex_);
    held_back_ = packet;
    held_server_ = std::exchange(link.server, -1);
  }
  if (harm == Harm::twice) {
    link.swallow_first =
        is_command(packet) && static_cast<unsigned char>(packet[k_packet_header]) != k_com_quit;
    link.dead = !send_all(link.server, link.swallow_first ? packet + packet : packet);
  }
  struck_ = true;
}

void Proxy::pass_to_client(Link& link, std::string packet, std::string& passed) {
  if (link.mute) return;
  if (link.swallow_first) {
    link.swallow_first = !link.first_reply.is_last(packet, link.without_eof);
    return;
  }
  if (std::exchange(link.preparing, false) && packet.size() >= k_packet_header + 5 &&
      packet[k_packet_header] == 0)
    link.prepared[little_endian(packet, k_packet_header + 1, 4)] = link.last_prepared;
  const Harm harm = note({link.connection, false, false, ""});
  if (!link.logged_in) hide_tls(packet);
  if (harm != Harm::cut_before) passed += packet;
  if (harm == Harm::none) return;
  link.dead = harm == Harm::cut_before || harm == Harm::cut_after;
  struck_ = true;
}

bool Proxy::is_for_second(Link& link, const std::string& packet) {
  const std::string text = packet.substr(k_packet_header + 1);
  if (text.starts_with("START TRANSACTION")) link.in_transaction = true;
  if (text.starts_with("COMMIT") || text.starts_with("ROLLBACK")) link.in_transaction = false;
  const std::lock_guard lock(mutex_);
  if (link.in_transaction) return false;
  if (!moves_) return text.starts_with("SELECT");
  if (text.find("GET_LOCK") != std::string::npos) link.pinned = true;
  if (link.pinned || static_cast<unsigned char>(packet[k_packet_header]) != k_com_query) return false;
  link.turn = !link.turn;
  if (link.turn) ++moved_;
  return link.turn;
}

bool Proxy::done_elsewhere(Link& link, const std::string& packet) {
  const bool login = !is_command(packet);
  const bool setting = !login && packet.compare(k_packet_header + 1, 3, "SET") == 0;
  const bool answers = !login && !setting && is_for_second(link, packet);
  if (!login && !setting && !answers) return false;
  ReplyEnd end;
  if (!send_all(link.second, packet)) link.dead = true;
  for (bool last = false; !last && !link.dead;) {
    const std::string reply = take_packet_of(link.second, link.from_second);
    last = !answers || end.is_last(reply, link.without_eof);  // what is no result set is one packet
    link.dead = reply.empty() || (answers && !send_all(link.client, reply));
  }
  return answers;
}

bool Proxy::on_statement(Link& link, const std::string& text) {
  std::function<bool(const std::string&)> matches;
  {
    const std::lock_guard lock(mutex_);
    if (refused_ && refused_(text)) {
      link.dead = !send_all(link.client, refusal_);
      return false;
    }
    if (times_ == 0) return true;
    matches = matches_;
  }
  if (!matches(text)) return true;  // unlocked: it may call us
  const std::lock_guard lock(mutex_);
  --times_;
  ++cuts_;
  link.swallow_reply = how_ == Cut::before_reply;
  link.mute = how_ == Cut::never_answered;
  link.dead = how_ == Cut::before_statement;
  return !link.dead;
}

std::function<bool(const std::string&)> containing(std::string text) {
  return [text = std::move(text)](const std::string& statement) {
    return statement.find(text) != std::string::npos;
  };
}

}  // namespace dblock::test
