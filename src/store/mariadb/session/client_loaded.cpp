// The client library as a shared library of the system, loaded by the first connection. So a run on SQLite
// does not pay for libmariadb and its OpenSSL. Nor does the guardian, which is forked earlier: it loads the
// library only if it must release a dead dblock's lock.
#include <dlfcn.h>

#include <string>

#include "base/text.hpp"
#include "store/mariadb/session/client_library.hpp"

namespace dblock::store::mariadb {
namespace {

std::unexpected<Error> cannot_load(const std::string& file) {
  const char* const words = ::dlerror();
  return fail(Errc::config, "cannot load MariaDB's client library " + escape_untrusted(file) + ": " +
                                escape_untrusted(words == nullptr ? "no reason given" : words) +
                                "; install it (Debian: package libmariadb3), or use --local where one host "
                                "is all that the lock has to guard");
}

template <typename Function>
bool look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

void* s_library = nullptr;  // written once, by client_library()

// Loads the library for good: OpenSSL leaves handlers behind that run when the process ends.
Result<ClientLibrary> load(const char* file) {
  // RTLD_NOW: a library that does not fit its OpenSSL fails here; otherwise the dynamic linker would end the
  // process between two statements. It costs nothing, since distributions build these libraries to be bound
  // at once anyway.
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return cannot_load(file);
  s_library = library;
  ClientLibrary api;
#define DBLOCK_LOOK_UP(function) \
  if (!look_up(library, #function, api.function)) return cannot_load(file);
  DBLOCK_CLIENT_FUNCTIONS(DBLOCK_LOOK_UP)
#undef DBLOCK_LOOK_UP
  return api;
}

}  // namespace

const Result<ClientLibrary>& client_library() {
  static const Result<ClientLibrary> library = load(DBLOCK_CLIENT_LIBRARY);
  return library;
}

void* symbol_of_library(const char* name) {
  return ::dlsym(s_library, name);
}

}  // namespace dblock::store::mariadb
