// How dblock and its helper processes communicate: by records over a socket pair. dblock and the guardian
// send each other `Message` records, and share a page of memory for the deadline, which changes often.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cerrno>
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
  guard,           // the shared deadline has been set for the first time: watch it from now on
  forward,         // value: signal for the job alone
  stop,            // value: first signal; detail: a Stop::Reason; begin stopping the whole tree
  continue_job,    // continue a job that stopped for the terminal
  continue_group,  // Ctrl-Z has stopped the foreground group; continue all its members
  dismiss,         // nothing is left to guard; exit
  // guardian -> dblock
  ready,        // value: the job's pid, still behind the gate; negative: -errno of a failed fork;
                // detail: the guardian's own pid
  job_started,  // its program has been executed; only where JobSpec::tell_start asks for it
  job_stopped,  // value: signal that stopped the job
  job_exited,   // value: wait status; detail: errno of a failed exec. Its descendants may still live
  fencing,      // the deadline is too near: the job is being stopped
  left_behind,  // text: "name (pid)" of a daemon that is left to run on
  done,         // value: 1 when the tree is dead or left on purpose; detail: the bits below
};

// Bits of `detail` in `done`. A message that finds the socket full, because dblock is frozen, is lost. So
// `done`, the last one, repeats that the deadline stopped the job.
inline constexpr std::int32_t k_job_killed = 1;
inline constexpr std::int32_t k_fenced = 2;
inline constexpr std::int32_t k_leftovers_killed = 4;

// `value` of `stop`: the grace begins without a signal, since Ctrl-C has sent the job one.
inline constexpr int k_by_ctrl_c = 0;

// `detail` of job_exited, in place of an exec's errno: the deadline left no time to start the job.
inline constexpr int k_deadline_too_near = ETIME;

struct Message {
  MessageType type{};
  std::int32_t value = 0;
  std::int32_t detail = 0;
  std::array<char, 52> text{};

  [[nodiscard]] static Message with_text(MessageType type, std::string_view text);
};

// The two ends of a SOCK_SEQPACKET pair.
struct SocketPair {
  UniqueFd first;
  UniqueFd second;
};
// `peer`: the other process's name, for error messages.
[[nodiscard]] Result<SocketPair> make_socket_pair(const std::string& peer);

// Neither call blocks. Sending returns false when the record was not sent: a full socket means that the peer
// is frozen, which the timers of the other processes handle. A record that was sent is received even after
// its sender has ended.
// `nothing`: no record has come yet. `closed`: the peer has closed its end or has ended.
enum class Received { message, nothing, closed };
bool send_bytes(const UniqueFd& socket, const void* record, std::size_t size) noexcept;
[[nodiscard]] Received receive_bytes(const UniqueFd& socket, void* record, std::size_t size) noexcept;

template <typename Record>
bool send_record(const UniqueFd& socket, const Record& record) noexcept {
  static_assert(std::is_trivially_copyable_v<Record>);
  return send_bytes(socket, &record, sizeof record);
}
template <typename Record>
[[nodiscard]] Received receive_record(const UniqueFd& socket, Record& record) noexcept {
  static_assert(std::is_trivially_copyable_v<Record>);
  return receive_bytes(socket, &record, sizeof record);
}

// Lives in a page of memory that dblock, its guardian and the job before its exec share. The page survives
// the death of any of these processes.
//
// This needs no fixed order in which one processor's writes reach another:
// - Each field is one machine word, so no process reads half a change. No two fields have to be read
// together.
// - A write releases and a read acquires: a process that reads a value also sees all that the writer had done
// before.
// - A process may read an older deadline for a moment. That is safe, since deadlines only move forwards: an
// older one stops the job too early, never too late.
// - An older "no lease yet" would not be safe. So, after setting the first deadline, dblock sends a message
// to the guardian and opens the job's gate. A system call that receives what another one sent orders the
// memory of both processes as a mutex does.
class SharedState {
 public:
  // Sets the deadline if `deadline` is later than the present one. Any number of writers may call it at once.
  void extend_deadline(BootTime deadline) noexcept;
  [[nodiscard]] std::optional<BootTime> deadline() const noexcept;  // nullopt: no lease yet

  // From now on a lease may exist, which the guardian has to release after dblock's death.
  void arm_release() noexcept;
  [[nodiscard]] bool release_armed() const noexcept;

 private:
  std::atomic<std::int64_t> deadline_ns_{0};  // BOOTTIME; 0: no lease yet
  std::atomic<bool> release_armed_{false};
};
// An atomic that needs a lock would keep the lock in each process's own memory, where no other process sees
// it.
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
// Each process unmaps the page; none runs the destructor of the state in it.
static_assert(std::is_trivially_destructible_v<SharedState>);

struct UnmapShared {
  void operator()(SharedState* state) const noexcept;
};
using SharedPage = std::unique_ptr<SharedState, UnmapShared>;
// Maps a page that this process shares with the children it forks later. Errc::internal on failure.
[[nodiscard]] Result<SharedPage> make_shared_page();

}  // namespace dblock::process
