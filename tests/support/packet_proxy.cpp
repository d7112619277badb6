#include "support/packet_proxy.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "support/packets.hpp"

namespace dblock::test {
namespace {

constexpr std::uint32_t k_deprecates_eof = 1U << 24U;  // a capability in dblock's half of the login

}  // namespace

struct PacketProxy::Link {
  Link(std::size_t number, int client_fd, int server_fd)
      : connection(number), client(client_fd), server(server_fd) {}
  ~Link() {
    ::close(client);
    if (server >= 0) ::close(server);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  std::size_t connection;
  int client, server;
  bool dead = false;
  bool logged_in = false;    // dblock's half of the login has been seen
  bool without_eof = false;  // so they have agreed
  bool swallowing = false;   // the first of two replies
  ReplyEnd swallowed{};
  std::string client_stream{}, server_stream{};  // not yet whole packets
};

const char* to_string(Harm harm) {
  switch (harm) {
    case Harm::none:
      return "nothing done";
    case Harm::cut_before:
      return "cut before";
    case Harm::cut_after:
      return "cut after";
    case Harm::late:
      return "late";
    case Harm::twice:
      return "twice";
  }
  return "";
}

std::vector<Cut> cuts_of(const std::vector<Packet>& packets) {
  const auto goes_on =
      [&](std::size_t i) {  // packet i of the server is followed by another of the same reply
        return i + 1 < packets.size() && !packets[i].from_client && !packets[i + 1].from_client &&
               packets[i].connection == packets[i + 1].connection;
      };
  std::vector<Cut> cuts;
  std::size_t connections = 0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const bool begins = packets[i].connection == connections;
    if (begins) ++connections;
    if (begins || packets[i].from_client) cuts.push_back({Harm::cut_before, i});
    const bool is_third_or_later = i >= 2 && goes_on(i - 2) && goes_on(i - 1);
    if (full_run() || !is_third_or_later || !goes_on(i)) cuts.push_back({Harm::cut_after, i});
  }
  return cuts;
}

PacketProxy::PacketProxy(ServerAddress upstream, Harm harm, std::size_t at)
    : upstream_(std::move(upstream)), harm_(harm), at_(at) {
  listener_ = listen_on_loopback(port_);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { loop(); });
}

PacketProxy::~PacketProxy() {
  ending_ = true;
  ::eventfd_write(wake_, 1);
  thread_.join();
  ::close(listener_);
  ::close(wake_);
  if (held_server_ >= 0) ::close(held_server_);
}

std::string PacketProxy::url(const std::string& database, const std::string& user) const {
  return "mysql://" + user + "@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

std::vector<Packet> PacketProxy::packets() const {
  const std::lock_guard lock(mutex_);
  return packets_;
}

bool PacketProxy::deliver() {
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

void PacketProxy::loop() {
  while (!ending_) {
    std::vector<pollfd> entries{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& link : links_) {
      entries.push_back({link->client, POLLIN, 0});
      entries.push_back({link->server, POLLIN, 0});
    }
    ::poll(entries.data(), entries.size(), 1000);
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

void PacketProxy::accept_one() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int server = connect_unix(upstream_.socket);
  if (server < 0) {
    ::close(client);
    return;
  }
  links_.push_back(std::make_unique<Link>(connections_++, client, server));
}

void PacketProxy::from_client(Link& link) {
  char part[16384];
  const ssize_t got = ::recv(link.client, part, sizeof part, 0);
  if (got <= 0) {
    link.dead = true;
    return;
  }
  link.client_stream.append(part, static_cast<std::size_t>(got));
  for (std::string packet; !link.dead && !(packet = take_packet(link.client_stream)).empty();)
    pass_to_server(link, packet);
}

void PacketProxy::from_server(Link& link) {
  char part[16384];
  const ssize_t got = ::recv(link.server, part, sizeof part, 0);
  if (got <= 0) {
    link.dead = true;
    return;
  }
  link.server_stream.append(part, static_cast<std::size_t>(got));
  for (std::string packet; !link.dead && !(packet = take_packet(link.server_stream)).empty();) {
    if (!link.logged_in) hide_tls(packet);
    pass_to_client(link, packet);
  }
}

std::size_t PacketProxy::note(Packet packet) {
  const std::lock_guard lock(mutex_);
  packets_.push_back(std::move(packet));
  return packets_.size() - 1;
}

void PacketProxy::pass_to_server(Link& link, const std::string& packet) {
  const bool command = packet[3] == 0 && packet.size() > k_packet_header;
  const auto kind = command ? static_cast<unsigned char>(packet[k_packet_header]) : 0;
  if (!command && !std::exchange(link.logged_in, true) && packet.size() >= k_packet_header + 4)
    link.without_eof = (little_endian(packet, k_packet_header, 4) & k_deprecates_eof) != 0;
  const std::string text = kind == k_com_query ? packet.substr(k_packet_header + 1) : "";
  const bool here = note({link.connection, true, command, text}) == at_ && harm_ != Harm::none;
  if (!here) {
    link.dead = !send_all(link.server, packet);
    return;
  }
  switch (harm_) {
    case Harm::cut_after:
      static_cast<void>(send_all(link.server, packet));
      link.dead = true;
      break;
    case Harm::late: {
      const std::lock_guard lock(mutex_);
      held_back_ = packet;
      held_server_ = std::exchange(link.server, -1);
      link.dead = true;
      break;
    }
    case Harm::twice:
      link.swallowing = command && kind != k_com_quit;
      link.dead = !send_all(link.server, link.swallowing ? packet + packet : packet);
      break;
    default:
      link.dead = true;
  }
  struck_ = true;
}

void PacketProxy::pass_to_client(Link& link, const std::string& packet) {
  if (link.swallowing) {
    link.swallowing = !link.swallowed.is_last(packet, link.without_eof);
    return;
  }
  const bool here = note({link.connection, false, false, ""}) == at_ && harm_ != Harm::none;
  if (here && harm_ == Harm::cut_before) {
    link.dead = true;
  } else {
    link.dead = !send_all(link.client, packet) || (here && harm_ == Harm::cut_after);
  }
  if (here) struck_ = true;
}

}  // namespace dblock::test
