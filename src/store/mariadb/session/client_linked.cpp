// The client library as a part of this program, with its OpenSSL.
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "store/mariadb/session/client_library.hpp"

namespace dblock::store::mariadb {
namespace {

Result<ClientLibrary> functions() {
  ClientLibrary api;
#define DBLOCK_TAKE(function) api.function = &::function;
  DBLOCK_CLIENT_FUNCTIONS(DBLOCK_TAKE)
#undef DBLOCK_TAKE
  return api;
}

struct Symbol {
  std::string_view name;
  void* address;
};

}  // namespace

const Result<ClientLibrary>& client_library() {
  static const Result<ClientLibrary> library = functions();
  return library;
}

void* symbol_of_library(const char* name) {
#define DBLOCK_SYMBOL(function)                       \
  Symbol {                                            \
#function, reinterpret_cast < void*>(&::function) \
  }
  static const std::array known{DBLOCK_SYMBOL(BIO_free),
                                DBLOCK_SYMBOL(BIO_new),
                                DBLOCK_SYMBOL(BIO_read),
                                DBLOCK_SYMBOL(BIO_s_mem),
                                DBLOCK_SYMBOL(OPENSSL_init_crypto),
                                DBLOCK_SYMBOL(OpenSSL_version),
                                DBLOCK_SYMBOL(SSL_CTX_free),
                                DBLOCK_SYMBOL(SSL_CTX_new),
                                DBLOCK_SYMBOL(SSL_connect),
                                DBLOCK_SYMBOL(SSL_free),
                                DBLOCK_SYMBOL(SSL_get1_peer_certificate),
                                DBLOCK_SYMBOL(SSL_get_error),
                                DBLOCK_SYMBOL(SSL_get_verify_result),
                                DBLOCK_SYMBOL(SSL_new),
                                DBLOCK_SYMBOL(SSL_set_fd),
                                DBLOCK_SYMBOL(TLS_client_method),
                                DBLOCK_SYMBOL(X509V3_EXT_print),
                                DBLOCK_SYMBOL(X509_NAME_oneline),
                                DBLOCK_SYMBOL(X509_check_host),
                                DBLOCK_SYMBOL(X509_check_ip_asc),
                                DBLOCK_SYMBOL(X509_free),
                                DBLOCK_SYMBOL(X509_get_ext),
                                DBLOCK_SYMBOL(X509_get_ext_by_NID),
                                DBLOCK_SYMBOL(X509_get_subject_name),
                                DBLOCK_SYMBOL(X509_verify_cert_error_string)};
#undef DBLOCK_SYMBOL
  const auto* const found = std::ranges::find(known, std::string_view(name), &Symbol::name);
  return found == known.end() ? nullptr : found->address;
}

}  // namespace dblock::store::mariadb
