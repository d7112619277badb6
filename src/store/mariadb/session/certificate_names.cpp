#include "store/mariadb/session/certificate_names.hpp"

#include <fcntl.h>
#include <mysql.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "store/mariadb/session/client_library.hpp"
#include "store/mariadb/session/login.hpp"

namespace dblock::store::mariadb {
namespace {

constexpr int k_alternative_names = 85;        // NID_subject_alt_name
constexpr std::chrono::seconds k_patience{2};  // for a connection, and for what is read from it

// A function of the OpenSSL that the client library has loaded, whose headers are not needed for this.
template <typename Result, typename... Arguments>
Result call(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<Result (*)(Arguments...)>(symbol_of_library(name));
  if constexpr (std::is_void_v<Result>) {
    if (function != nullptr) function(arguments...);
  } else {
    return function != nullptr ? function(arguments...) : Result{};
  }
}

struct Free {
  const char* function;
  void operator()(void* object) const { call<void>(function, object); }
};
using Object = std::unique_ptr<void, Free>;

Object object(void* made, const char* free) {
  return {made, Free{free}};
}

std::string subject_of(void* certificate) {
  std::array<char, 256> text{};
  void* const name = call<void*>("X509_get_subject_name", static_cast<const void*>(certificate));
  if (name != nullptr)
    call<char*>("X509_NAME_oneline", static_cast<const void*>(name), text.data(),
                static_cast<int>(text.size()));
  return text.data();
}

UniqueFd connected(int family, const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{k_patience.count(), 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(fd.get(), address, size) != 0) fd.reset();
  return fd;
}

UniqueFd connected_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.data(), path.size());
  return connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

UniqueFd connected_to(const HostPort& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(host.port != 0 ? host.port : MARIADB_PORT);
  if (::getaddrinfo(host.host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (auto fd = connected(one->ai_family, one->ai_addr, one->ai_addrlen)) return fd;
  }
  return {};
}

// Waits until `fd` can be read from (POLLIN) or written to (POLLOUT). False after `give_up`.
bool ready(int fd, short events, BootTime give_up) {
  pollfd one{fd, events, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up - BootClock::now());
  return left.count() > 0 && ::poll(&one, 1, static_cast<int>(left.count())) == 1;
}

// Reads the server's greeting and asks for TLS: protocol 4.1, packets of 16 MiB, utf8, nothing else.
bool ask_for_tls(int fd, BootTime give_up) {
  std::array<unsigned char, 1028> greeting{};
  if (!ready(fd, POLLIN, give_up)) return false;
  const ssize_t size = ::recv(fd, greeting.data(), greeting.size(), 0);  // it comes in one piece
  if (size < 5 || greeting[0] + 256 * greeting[1] + 4 != size || greeting[2] != 0) return false;
  constexpr auto k_capabilities = CLIENT_SSL | 512U | 32768U;  // CLIENT_PROTOCOL_41, CLIENT_SECURE_CONNECTION
  std::array<unsigned char, 36> request{
      32, 0, 0, 1, k_capabilities & 0xffU, (k_capabilities >> 8U) & 0xffU, 0, 0, 0, 0, 0, 1, 33};
  return ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
}

bool shakes_hands(void* session, int fd, BootTime give_up) {
  constexpr int k_wants_to_read = 2, k_wants_to_write = 3;  // SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE
  for (;;) {
    const int done = call<int>("SSL_connect", session);
    if (done == 1) return true;
    const int why = call<int>("SSL_get_error", static_cast<const void*>(session), done);
    if (why != k_wants_to_read && why != k_wants_to_write) return false;
    if (!ready(fd, why == k_wants_to_read ? POLLIN : POLLOUT, give_up)) return false;
  }
}

}  // namespace

std::string names_in(void* certificate) {
  const int at =
      call<int>("X509_get_ext_by_NID", static_cast<const void*>(certificate), k_alternative_names, -1);
  void* const names = call<void*>("X509_get_ext", static_cast<const void*>(certificate), at);
  if (at < 0 || names == nullptr) return escape_untrusted(subject_of(certificate));
  const Object text = object(call<void*>("BIO_new", call<const void*>("BIO_s_mem")), "BIO_free");
  std::array<char, 512> words{};
  if (!text || call<int>("X509V3_EXT_print", text.get(), names, 0UL, 0) != 1) return {};
  const int size =
      call<int>("BIO_read", text.get(), static_cast<void*>(words.data()), static_cast<int>(words.size()));
  return size > 0 ? escape_untrusted(std::string_view(words.data(), static_cast<std::size_t>(size))) : "";
}

std::string names_shown_by(const MariadbSettings& settings, const HostPort* host) {
  const std::string socket = settings.socket.empty() ? MARIADB_UNIX_ADDR : settings.socket;
  const UniqueFd fd = is_local_socket(host) ? connected_to(socket) : connected_to(*host);
  const BootTime give_up = BootClock::now() + k_patience;
  if (!fd || ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 || !ask_for_tls(fd.get(), give_up)) return {};
  const Object context =
      object(call<void*>("SSL_CTX_new", call<const void*>("TLS_client_method")), "SSL_CTX_free");
  if (!context) return {};
  const Object session = object(call<void*>("SSL_new", context.get()), "SSL_free");
  if (!session || call<int>("SSL_set_fd", session.get(), fd.get()) != 1) return {};
  if (!shakes_hands(session.get(), fd.get(), give_up)) return {};
  const Object certificate =
      object(call<void*>("SSL_get1_peer_certificate", static_cast<const void*>(session.get())), "X509_free");
  return certificate ? names_in(certificate.get()) : "";
}

}  // namespace dblock::store::mariadb
