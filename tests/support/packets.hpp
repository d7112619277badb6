// MySQL's packets, as far as proxies need them: three bytes of length, one of sequence, then the payload. A
// command has sequence 0 and its kind in the payload's first byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dblock::test {

inline constexpr std::size_t k_packet_header = 4;
inline constexpr unsigned char k_com_quit = 0x01;
inline constexpr unsigned char k_com_query = 0x03;

[[nodiscard]] std::uint32_t little_endian(const std::string& bytes, std::size_t at, std::size_t count);
// Takes one whole packet off the front of `stream`; empty when there is none yet.
[[nodiscard]] std::string take_packet(std::string& stream);
// A proxy reads what passes, so it does not pass on a server's offer of TLS. What is no greeting stays as it
// is.
void hide_tls(std::string& greeting);
[[nodiscard]] bool send_all(int fd, const std::string& bytes);
[[nodiscard]] int connect_unix(const std::string& path);
// A listener on a port of the loopback that is free.
[[nodiscard]] int listen_on_loopback(int& port);

// Finds the end of a reply to a command. The reply to a CALL is several results.
class ReplyEnd {
 public:
  // True with the reply's last packet.
  bool is_last(const std::string& packet, bool without_eof);

 private:
  [[nodiscard]] bool ends_reply(const std::string& packet, bool old_eof);
  enum class Part { first, columns, columns_end, rows } part_ = Part::first;
  std::uint64_t columns_ = 0;
};

enum class Harm {
  none,
  cut_before,  // it never arrives
  cut_after,   // it arrives; nothing after it does
  late,        // a packet of dblock's: its connection is reset, and the server gets it when told
  twice,       // a command of dblock's: the server does it twice, and dblock hears the second reply only
};
[[nodiscard]] const char* to_string(Harm harm);

struct Packet {
  std::size_t connection = 0;  // by the order of their coming
  bool from_client = false;
  bool command = false;  // the first packet of a statement
  std::string text;      // of a statement
};

struct HarmedPacket {
  Harm harm;
  std::size_t at;  // its number in the recorded run
};
// The cuts that differ for dblock. To cut before a packet of the server is to cut after the connection's
// packet before it, if there is one. Within a reply the first packet, the second and the last stand for all
// (`each`: each counts): whoever reads it has some of a result, and no end.
[[nodiscard]] std::vector<HarmedPacket> cuts_of(const std::vector<Packet>& packets, bool each);

}  // namespace dblock::test
