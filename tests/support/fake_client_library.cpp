// Preloaded into dblock: MariaDB's client library is of the version FAKE_CLIENT_VERSION, lets nobody check
// certificates, as the first versions of 3.4 did not, and uses FAKE_TLS_LIBRARY for TLS where that is set.
// dblock looks for the library's functions by dlsym(), so this file puts functions of its own there.
#include <dlfcn.h>
#include <mysql.h>

#include <cstdlib>
#include <string_view>

namespace {

using Find = void*(void*, const char*);
using Options = int(MYSQL*, mysql_option, ...);
using Info = my_bool(MYSQL*, mariadb_value, ...);

Options* s_options;
Info* s_info;

// The name of its version differs between processors and between releases of the C library.
Find* real_dlsym() {
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Find*>(found);
  }
  std::abort();
}

const char* version() {
  return std::getenv("FAKE_CLIENT_VERSION");
}

// Version 3.4.2 has added an option by which certificates are checked, the fifth behind this one.
int set_option(MYSQL* handle, mysql_option option, void* first, void* second) {
  return option == MARIADB_OPT_RESTRICTED_AUTH + 5 ? 1 : s_options(handle, option, first, second);
}

my_bool tell(MYSQL* handle, mariadb_value value, void* first, void* second) {
  const char* const tls = std::getenv("FAKE_TLS_LIBRARY");
  if (value != MARIADB_TLS_LIBRARY || tls == nullptr) return s_info(handle, value, first, second);
  *static_cast<const char**>(first) = tls;
  return 0;
}

}  // namespace

extern "C" void* dlsym(void* library, const char* name) noexcept {
  void* const real = real_dlsym()(library, name);
  const std::string_view wanted(name);
  if (version() == nullptr || real == nullptr) return real;
  if (wanted == "mysql_get_client_info") return reinterpret_cast<void*>(&version);
  if (wanted == "mysql_optionsv") {
    s_options = reinterpret_cast<Options*>(real);
    return reinterpret_cast<void*>(&set_option);
  }
  if (wanted == "mariadb_get_infov") {
    s_info = reinterpret_cast<Info*>(real);
    return reinterpret_cast<void*>(&tell);
  }
  return real;
}
