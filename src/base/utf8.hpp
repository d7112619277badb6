// Text as code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dblock {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // bytes read; 0: malformed at this place
};

// The code point that starts `text`, which is not empty.
[[nodiscard]] CodePoint decode_utf8(std::string_view text);

}  // namespace dblock
