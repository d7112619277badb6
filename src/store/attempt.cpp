#include "store/attempt.hpp"

#include "base/text.hpp"

namespace dblock::store {

std::string Attempt::text() const {
  std::string text =
      of_lock_ ? "cannot " + std::string(words_) + " lock " + quote_untrusted(object_) : words_ + object_;
  if (!part_.empty()) text.append(" (").append(part_).append(")");
  return text;
}

std::unexpected<Error> Attempt::refuse(Errc code, const std::string& why) const {
  return fail(code, text() + ": " + why);
}

}  // namespace dblock::store
