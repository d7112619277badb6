// Stands in for libm in programs with a static SQLite. SQL's mathematical functions refer to libm, and a
// program that is linked with libm loads it at every start. No statement of dblock calls these functions, so
// here the first call loads libm.
#include <dlfcn.h>

#include <cstdlib>

namespace {

template <typename Function>
Function* from_libm(const char* name) {
  static void* const library = ::dlopen("libm.so.6", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : ::dlsym(library, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

}  // namespace

#define DBLOCK_OF_ONE(name)                     \
  extern "C" double name(double x) noexcept {   \
    return from_libm<double(double)>(#name)(x); \
  }
#define DBLOCK_OF_TWO(name)                                \
  extern "C" double name(double x, double y) noexcept {    \
    return from_libm<double(double, double)>(#name)(x, y); \
  }

DBLOCK_OF_ONE(acos)
DBLOCK_OF_ONE(acosh)
DBLOCK_OF_ONE(asin)
DBLOCK_OF_ONE(asinh)
DBLOCK_OF_ONE(atan)
DBLOCK_OF_ONE(atanh)
DBLOCK_OF_ONE(ceil)
DBLOCK_OF_ONE(cos)
DBLOCK_OF_ONE(cosh)
DBLOCK_OF_ONE(exp)
DBLOCK_OF_ONE(floor)
DBLOCK_OF_ONE(log)
DBLOCK_OF_ONE(log10)
DBLOCK_OF_ONE(log2)
DBLOCK_OF_ONE(sin)
DBLOCK_OF_ONE(sinh)
DBLOCK_OF_ONE(sqrt)
DBLOCK_OF_ONE(tan)
DBLOCK_OF_ONE(tanh)
DBLOCK_OF_ONE(trunc)
DBLOCK_OF_TWO(atan2)
DBLOCK_OF_TWO(fmod)
DBLOCK_OF_TWO(pow)
