// What the preloaded libraries share.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdarg>

namespace dblock::test {

// The function of this name that the library stands before.
template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// What a program has given to syscall() behind the number: as many words as any call takes.
inline std::array<long, 6> words_of(va_list& more) {
  std::array<long, 6> words{};
  for (auto& word : words) word = va_arg(more, long);
  return words;
}

}  // namespace dblock::test
