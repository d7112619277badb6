// Raw values become typed ones. Every message names the source of the value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cli/values.hpp"
#include "lease/acquire.hpp"
#include "lease/types.hpp"

namespace dblock::cli {

// Signal number for NAME with or without SIG, in any case, or for a number. nullopt when there is none.
[[nodiscard]] std::optional<int> parse_signal(std::string_view text);
// 1/true/yes/on and 0/false/no/off, in any case.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);

// Typed access to Values. An option that nobody set and that has no default is nullopt (false for flags).
class Reader {
 public:
  explicit Reader(const Values& values) : values_(values) {}

  [[nodiscard]] const Values& values() const { return values_; }
  [[nodiscard]] bool given(std::string_view name) const;  // on the command line
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] Result<bool> flag(std::string_view name) const;
  [[nodiscard]] Result<std::optional<Micros>> duration(std::string_view name) const;
  [[nodiscard]] Result<std::optional<Micros>> positive_duration(std::string_view name) const;
  // A limit where 0 and `forever` mean none, as in timeout(1).
  [[nodiscard]] Result<std::optional<Micros>> optional_limit(std::string_view name) const;
  // How often to repeat something, by a switch that may have a value: "yes" means its remark, "no" not at
  // all.
  [[nodiscard]] Result<std::optional<Micros>> interval(std::string_view name) const;
  // --wait and, where the subcommand has it, --nonblock; the one of higher rank wins.
  [[nodiscard]] Result<lease::WaitPolicy> wait() const;
  // The same with --attempts, --backoff and --backoff-multiplier: where tries are counted, nothing else
  // limits the wait unless it was said.
  [[nodiscard]] Result<lease::WaitPolicy> wait_or_retry() const;
  [[nodiscard]] Result<std::optional<std::uint64_t>> number(std::string_view name, std::uint64_t most) const;
  [[nodiscard]] Result<int> signal(std::string_view name) const;
  [[nodiscard]] Result<std::string> choice(std::string_view name) const;  // one of the table's
  [[nodiscard]] Result<double> factor(std::string_view name) const;       // 1 or more
  [[nodiscard]] Result<std::vector<lease::Key>> keys(std::string_view name) const;

 private:
  const Values& values_;
};

}  // namespace dblock::cli
