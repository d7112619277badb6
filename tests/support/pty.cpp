#include "support/pty.hpp"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "support/proc_tree.hpp"

namespace dblock::test {

std::vector<std::string> interactive_bash() {
  return {"/bin/bash", "--norc", "--noprofile", "-i"};
}

Terminal::Terminal(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                   unsigned short columns)
    : mark_(new_mark()) {
  auto env_words = bare_environment(mark_, env);
  const auto names_term = [](const std::string& word) { return word.starts_with("TERM="); };
  if (std::ranges::none_of(env, names_term)) env_words.emplace_back("TERM=dumb");
  env_words.emplace_back("PS1=ready> ");
  const auto arguments = pointers_to(argv);
  const auto variables = pointers_to(env_words);
  const winsize size{40, columns, 0, 0};
  pid_ = ::forkpty(&master_, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error("no pseudo-terminal");
  if (pid_ == 0) {
    reset_signals();
    ::execvpe(arguments[0], arguments.data(), variables.data());
    ::_exit(125);
  }
}

Terminal::~Terminal() {
  kill_tree(mark_);
  hang_up();
  if (!exit_) ::waitpid(pid_, nullptr, 0);
}

void Terminal::send(const std::string& keys) {
  if (::write(master_, keys.data(), keys.size()) < 0) throw std::runtime_error("the terminal is gone");
}

void Terminal::resize(unsigned short columns, unsigned short rows) {
  const winsize size{rows, columns, 0, 0};
  if (::ioctl(master_, TIOCSWINSZ, &size) != 0) throw std::runtime_error("the terminal has no size");
}

bool Terminal::is_cooked() const {
  termios mode{};
  if (::tcgetattr(master_, &mode) != 0) throw std::runtime_error("the terminal has no modes");
  constexpr tcflag_t k_all = ICANON | ECHO | ISIG;
  return (mode.c_lflag & k_all) == k_all && (mode.c_iflag & IXON) != 0;
}

void Terminal::hang_up() {
  if (master_ >= 0) ::close(std::exchange(master_, -1));
}

bool Terminal::read_some(milliseconds limit) {
  if (master_ < 0) return false;
  pollfd entry{master_, POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(limit.count())) <= 0) return true;
  char part[4096];
  const ssize_t got = ::read(master_, part, sizeof part);
  if (got <= 0) return false;  // EIO: nobody has the terminal open any more
  screen_.append(part, static_cast<std::size_t>(got));
  return true;
}

bool Terminal::shows(const std::string& text, milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (bool open = true;;) {
    const auto found = screen_.find(text, seen_);
    if (found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    if (!open || std::chrono::steady_clock::now() >= end) return false;
    open = read_some(50ms);
  }
}

std::optional<Exit> Terminal::wait(milliseconds limit) {
  const bool ended = wait_until(
      [&] {
        if (exit_) return true;
        (void)read_some(0ms);  // a full terminal would block the program
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
        exit_ = WIFSIGNALED(status) ? killed_by(WTERMSIG(status)) : exited(WEXITSTATUS(status));
        return true;
      },
      limit);
  while (ended) {  // what is still in the terminal's buffer
    const auto before = screen_.size();
    if (!read_some(0ms) || screen_.size() == before) break;
  }
  return exit_;
}

std::vector<pid_t> Terminal::tree() const {
  return processes_with_mark(mark_);
}
pid_t Terminal::foreground_group() const {
  return ::tcgetpgrp(master_);
}

}  // namespace dblock::test
