#include "store/mariadb/client_library.hpp"

#include <dlfcn.h>

#include <string>

#include "base/text.hpp"
#include "store/mariadb/factory.hpp"

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

// Never unloaded: OpenSSL has left handlers behind that run when the process ends.
Result<ClientLibrary> load(const char* file) {
  // NOW: a library that does not fit its OpenSSL is refused here, not by the dynamic linker's exit between
  // two statements. It costs nothing, since distributions link these libraries to be bound at once anyway.
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

std::string client_library_version() {
  return api().mysql_get_client_info();
}

std::string tls_library() {
  const char* name = nullptr;
  const bool known = api().mariadb_get_infov(nullptr, MARIADB_TLS_LIBRARY, static_cast<void*>(&name)) == 0 &&
                     name != nullptr;
  if (known && *name != '\0') return name;
  // Before the first connection only OpenSSL itself knows.
  using OpenSslVersion = const char*(int);
  auto* const ask = reinterpret_cast<OpenSslVersion*>(symbol_of_library("OpenSSL_version"));
  return ask != nullptr ? ask(0) : "";
}

Result<std::string> client_library_in_use() {
  if (const auto& library = client_library(); !library) return std::unexpected(library.error());
  const std::string tls = tls_library();
  return client_library_version() + (tls.empty() ? " without TLS" : " with " + tls);
}

}  // namespace dblock::store::mariadb
