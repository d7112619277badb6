// Errors are values: every fallible function returns Result<T>. Exceptions are thrown only where no memory is
// left, or no thread can be started (base/worker.cpp); cli/dispatch.cpp then ends the process with 70. One
// function in app/words/ending turns an Errc into an exit status; nothing else does.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace dblock {

enum class Errc {
  usage,          // the command line is wrong
  config,         // configuration is missing, contradictory or unreadable
  schema,         // dblock's tables are missing, older or newer than this binary
  unreachable,    // the database cannot be reached or gave up in time; nothing was done
  indeterminate,  // a statement was sent and its reply lost; it may or may not have been done
  denied,         // the database refused the account
  held,           // the lock is held by another holder
  lost,           // the lease is not, or no longer, ours
  not_found,      // the command was not found
  cannot_run,     // the command was found but cannot be executed
  internal,       // a bug, or the operating system refused something basic
};

// `message` is a complete sentence without a final stop: what was attempted, what happened, what to do next.
// It never holds a password. `native` is the database's or system's own error number, 0 where there is none.
struct Error {
  Errc code = Errc::internal;
  std::string message;
  unsigned native = 0;
  bool may_pass = false;         // of a refusal: it is likely to end by itself, so a later try is worthwhile
  std::string_view statement{};  // the database's statement that failed, by its name; empty: not known
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string message, unsigned native = 0) {
  return std::unexpected(Error{code, std::move(message), native});
}

// "cannot open /x: No such file or directory": the system's words for errno value `err` after `attempt`.
[[nodiscard]] std::string with_errno(const std::string& attempt, int err);

// Writes `attempt` and the reason in errno to stderr, and ends the process with 70. Call it where the system
// refuses something that dblock cannot go on without, most likely a descriptor. Dumps no core: it would show
// no fault of dblock's. The process that watches this one (the guardian, or dblock) stops the job.
[[noreturn]] void die(const char* attempt);

}  // namespace dblock

// `decl` declares a name and `tmp` is one: neither may stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define DBLOCK_CONCAT_INNER(a, b) a##b
#define DBLOCK_CONCAT(a, b) DBLOCK_CONCAT_INNER(a, b)
#define DBLOCK_TRY_IMPL(tmp, decl, expr)                    \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp.error())); \
  decl = std::move(*tmp)

// DBLOCK_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define DBLOCK_TRY(decl, expr) DBLOCK_TRY_IMPL(DBLOCK_CONCAT(dblock_try_, __LINE__), decl, expr)
// NOLINTEND(bugprone-macro-parentheses)
// DBLOCK_CHECK(f()): the same for Result<void>.
#define DBLOCK_CHECK(expr)                                                                                  \
  do {                                                                                                      \
    if (auto dblock_check = (expr); !dblock_check) return std::unexpected(std::move(dblock_check.error())); \
  } while (false)
