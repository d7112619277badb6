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
#include <type_traits>

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
  done,         // value: 1 when the tree is dead or left on purpose; detail: the two flags below
};

inline constexpr std::int32_t k_fenced = 1;      // the deadline made the job stop
inline constexpr std::int32_t k_job_killed = 2;  // the job itself had to be killed

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

// Lives in a page that dblock, its guardian and the job before its exec share; survives the death of any of
// them.
//
// Nothing here leans on the order in which one processor's writes reach another. Each field is one machine
// word, so nobody reads half a change, and no two fields have to be read together. A write releases and a
// read acquires: a process that reads a value also sees all that the writer had done before. A process may
// read an older deadline for a moment. That is safe, since deadlines only move forwards: an older one stops
// the job too early, never too late. An older "no lease yet" would not be safe, so whoever guards the first
// deadline is sent a word after it was set: the guardian a message, the job the opening of its gate. A system
// call that receives what another one sent orders the memory of both processes as a mutex does.
class SharedState {
 public:
  // Moves the deadline forwards only, whichever of several writers comes last.
  void extend_deadline(BootTime deadline) noexcept;
  [[nodiscard]] std::optional<BootTime> deadline() const noexcept;

  // From now on there may be a lease, which the guardian has to release after dblock's death.
  void arm_release() noexcept;
  [[nodiscard]] bool release_armed() const noexcept;

 private:
  std::atomic<std::int64_t> deadline_ns_{0};  // BOOTTIME; 0: no lease yet
  std::atomic<bool> release_armed_{false};
};
// An atomic with a lock would keep that lock in one process's memory, unknown to the other.
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
// Each process unmaps the page, none destroys what is in it.
static_assert(std::is_trivially_destructible_v<SharedState>);

struct UnmapShared {
  void operator()(SharedState* state) const noexcept;
};
using SharedPage = std::unique_ptr<SharedState, UnmapShared>;
[[nodiscard]] Result<SharedPage> make_shared_page();

}  // namespace dblock::process
