// A program on a pseudo-terminal of its own, as a login shell runs: session leader with a controlling
// terminal.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace dblock::test {

inline constexpr const char* k_ctrl_c = "\x03";
inline constexpr const char* k_ctrl_s = "\x13";
inline constexpr const char* k_ctrl_z = "\x1a";
inline constexpr const char* k_ctrl_backslash = "\x1c";

// bash as a person uses it, whose prompt is "ready> ".
[[nodiscard]] std::vector<std::string> interactive_bash();

class Terminal {
 public:
  // TERM is dumb unless `env` says otherwise.
  explicit Terminal(const std::vector<std::string>& argv, const std::vector<std::string>& env = {},
                    unsigned short columns = 200);
  // As `spec` says, of which only argv and env count.
  explicit Terminal(const Spawn& spec, unsigned short columns = 200)
      : Terminal(spec.argv, spec.env, columns) {}
  ~Terminal();  // kills the whole tree
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void send(const std::string& keys);
  void resize(unsigned short columns, unsigned short rows);
  // Line by line and with an echo, as a shell expects it: no program has taken the keys for itself.
  [[nodiscard]] bool is_cooked() const;
  void hang_up();  // as when its window is closed; only wait() and tree() may follow
  // Reads until the screen has shown `text` (after what an earlier call found), the program has closed the
  // terminal, or time is up.
  [[nodiscard]] bool shows(const std::string& text, milliseconds limit = patience());
  [[nodiscard]] const std::string& screen() const { return screen_; }  // everything so far
  [[nodiscard]] std::optional<Exit> wait(milliseconds limit = patience());
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::vector<pid_t> tree() const;
  [[nodiscard]] pid_t foreground_group() const;

 private:
  bool read_some(milliseconds limit);
  std::string mark_;
  std::string screen_;
  std::size_t seen_ = 0;
  pid_t pid_ = -1;
  int master_ = -1;
  std::optional<Exit> exit_;
};

}  // namespace dblock::test
