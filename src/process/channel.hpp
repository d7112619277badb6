// The words dblock and its guardian exchange: fixed-size messages over a socket pair, and a page of shared
// memory for what changes often (the deadline).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace dblock::process {

enum class MessageType : std::int32_t {
  // dblock -> guardian
  guard,    // the shared deadline has been set for the first time: watch it from now on
  forward,  // value: signal for the job alone
  stop,     // value: first signal; begin stopping the whole tree
  resume,   // continue a job that stopped for the terminal
  unpark,   // Ctrl-Z has stopped the foreground group; see to it that everyone in it goes on
  finish,   // nothing is left to guard; exit
  // guardian -> dblock
  ready,        // value: the job's pid, still behind the gate; negative: -errno of a failed fork
  job_stopped,  // value: signal that stopped the job
  job_exited,   // value: wait status; detail: errno of a failed exec. Its descendants may still live
  fencing,      // the deadline is too near: the job is being stopped
  left_behind,  // text: "name (pid)" of a daemon that is left alone
  done,         // value: 1 when the tree is dead or left on purpose; detail: 1 when the deadline made it stop
};

struct Message {
  MessageType type{};
  std::int32_t value = 0;
  std::int32_t detail = 0;
  std::array<char, 52> text{};

  [[nodiscard]] static Message with_text(MessageType type, std::string_view text);
};

// The two ends of a SOCK_SEQPACKET pair, and the records of fixed size that pass through it.
struct SocketPair {
  UniqueFd first;
  UniqueFd second;
};
[[nodiscard]] Result<SocketPair> make_socket_pair(const std::string& peer);  // whom it is for, in messages

// Neither call blocks. A record that was sent is received even when its sender has ended.
enum class Received { message, nothing, closed };
bool send_record(const UniqueFd& socket, const void* record, std::size_t size) noexcept;
[[nodiscard]] Received receive_record(const UniqueFd& socket, void* record, std::size_t size) noexcept;

// One end of the pair. Never blocks: a full channel means the peer is frozen, which its own timers handle.
class Channel {
 public:
  Channel() = default;
  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}
  bool send(const Message& message) const noexcept;
  using Received = process::Received;
  Received receive(Message& message) const noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() noexcept { fd_.reset(); }

 private:
  UniqueFd fd_;
};

struct ChannelPair {
  Channel first;
  Channel second;
};
[[nodiscard]] Result<ChannelPair> make_channel();

// Lives in a page that dblock, its guardian and nobody else share; survives either one's death.
struct SharedState {
  std::atomic<std::int64_t> deadline_ns{0};  // BOOTTIME; 0: no lease yet
  std::atomic<bool> release_armed{false};

  // Moves the deadline forwards only.
  void extend_deadline(BootTime deadline) noexcept;
  [[nodiscard]] std::optional<BootTime> deadline() const noexcept;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

struct UnmapShared {
  void operator()(SharedState* state) const noexcept;
};
using SharedPage = std::unique_ptr<SharedState, UnmapShared>;
[[nodiscard]] Result<SharedPage> make_shared_page();

}  // namespace dblock::process
