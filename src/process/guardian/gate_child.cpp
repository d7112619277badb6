#include "process/guardian/gate_child.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "process/command.hpp"
#include "process/guardian/stop_plan.hpp"

namespace dblock::process {
namespace {

bool read_fully(int fd, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool write_fully(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Reads the message that opens the gate: a length, then NAME=VALUE entries that each end with a NUL. False
// when the gate is closed instead.
bool wait_for_gate(int gate, std::string& entries) {
  std::uint32_t size = 0;
  std::array<char, sizeof size> head{};
  if (!read_fully(gate, head.data(), head.size())) return false;
  std::memcpy(&size, head.data(), sizeof size);
  entries.resize(size);
  return read_fully(gate, entries.data(), entries.size());
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  list.reserve(strings.size() + 1);
  for (std::string& s : strings) list.push_back(s.data());
  list.push_back(nullptr);
  return list;
}

// Like execvp(3): runs a file whose format the kernel does not know as a shell script. Returns on failure
// only, with the reason in errno.
void exec_program(const std::string& path, std::vector<std::string> argv, char* const* environment) {
  ::execve(path.c_str(), pointers(argv).data(), environment);
  if (errno != ENOEXEC) return;
  std::vector<std::string> script{"/bin/sh", path};
  if (!argv.empty()) script.insert(script.end(), argv.begin() + 1, argv.end());
  ::execve("/bin/sh", pointers(script).data(), environment);
}

bool deadline_too_near(const GateChild& child) {
  StopPlan plan(child.spec.kill_grace, child.spec.slack);
  plan.set_deadline(child.shared.deadline());
  return plan.fence_due(BootClock::now());
}

[[noreturn]] void give_up(const GateChild& child, int err) {
  [[maybe_unused]] const auto n = ::write(child.exec_error.get(), &err, sizeof err);
  ::_exit(126);
}

}  // namespace

void become_job(GateChild child) {
  if (child.group) ::setpgid(0, *child.group);
  // Done while the gate is still closed, to save time later. All handled signals stay blocked.
  child.signals.restore_dispositions();
  std::string entries;
  if (!wait_for_gate(child.gate.get(), entries)) give_up(child, ECANCELED);
  child.gate.reset();
  // What the job is given besides its environment is to be set before this line: nothing that takes time may
  // follow. I4: dblock may have been frozen between its last look at the deadline and the opening of the
  // gate.
  if (deadline_too_near(child)) give_up(child, k_deadline_too_near);
  const std::vector<char*> environment = changed_environment(entries);
  child.signals.restore_mask();
  exec_program(child.spec.executable, child.spec.argv, environment.data());
  give_up(child, errno);
}

bool open_gate(const UniqueFd& gate, const std::vector<std::string>& environment) {
  const std::string entries = join_changes(environment);
  const auto size = static_cast<std::uint32_t>(entries.size());
  std::string message(sizeof size, '\0');
  std::memcpy(message.data(), &size, sizeof size);
  message += entries;
  return write_fully(gate.get(), message.data(), message.size());
}

}  // namespace dblock::process
