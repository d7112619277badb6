// Several hosts: in which order they are asked, and which of them are the wrong ones. And that no variable
// chooses another.

#include <cstdlib>

#include "child.hpp"
#include "store/mariadb/session/errors.hpp"
#include "store/mariadb/session/host_order.hpp"
#include "store/mariadb/session/session_statements.hpp"
#include "support/catch.hpp"

namespace dblock::store::mariadb {

void forget_environment();  // of client_library.hpp, which needs the client library's own header

namespace {

using namespace std::chrono_literals;
using Order = std::vector<std::size_t>;

}  // namespace

TEST_CASE("variables of the client library, OpenSSL and the resolver are forgotten before a connection") {
  const auto forgotten = [](const char* name) {
    return in_child([name] {
      ::setenv(name, "x", 1);
      forget_environment();
      return std::getenv(name) == nullptr;
    });
  };
  for (const char* const name :
       {"LIBMYSQL_PLUGINS", "MARIADB_PLUGIN_DIR", "MARIADB_TLS_DISABLE_PEER_VERIFICATION", "OPENSSL_CONF",
        "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSLKEYLOGFILE", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS"}) {
    CAPTURE(name);
    CHECK(forgotten(name));
  }
  for (const char* const name : {"SSL_CERT_FILE", "SSL_CERT_DIR", "PATH"}) CHECK_FALSE(forgotten(name));
}

TEST_CASE("hosts are asked as the URL names them, and after that the one that worked comes first") {
  HostOrder hosts(3);
  CHECK(hosts.order() == Order{0, 1, 2});
  hosts.worked(1);
  CHECK(hosts.order() == Order{1, 2, 0});
  hosts.worked(2);
  CHECK(hosts.order() == Order{2, 0, 1});
}

TEST_CASE("a host that refuses is asked after the others, and one that is silent last of all") {
  HostOrder hosts(3);
  hosts.failed(0, 5s);
  hosts.failed(1, 2ms);
  hosts.worked(2);
  CHECK(hosts.order() == Order{2, 1, 0});
  hosts.failed(2, 3s);
  CHECK(hosts.order() == Order{1, 2, 0});
  hosts.failed(1, 1ms);
  CHECK(hosts.order() == Order{1, 2, 0});
  hosts.worked(0);
  CHECK(hosts.order() == Order{0, 1, 2});
}

TEST_CASE("one host, or a socket, is the only one to ask whatever happened") {
  HostOrder hosts(1);
  hosts.failed(0, 10s);
  CHECK(hosts.order() == Order{0});
}

TEST_CASE("a server that takes no writes is the wrong host, in each of its ways to say so", "[safety]") {
  for (const unsigned native : {1792U, 1836U}) CHECK(is_wrong_host(native, "words"));
  CHECK(is_wrong_host(1290U, "The MariaDB server is running with the --read-only option"));
  CHECK(is_wrong_host(1290U, "The MySQL server is running with the --super-read-only option"));
  CHECK_FALSE(is_wrong_host(1290U, "The MariaDB server is running with the --skip-grant-tables option"));
  CHECK(is_wrong_host(1047, "WSREP has not yet prepared node for application use"));
  CHECK_FALSE(is_wrong_host(1047, "Unknown command"));
  CHECK_FALSE(is_wrong_host(2013, "Lost connection"));
  const auto said =
      wrong_host_error({1231, "Variable 'sql_mode' can't be set to the value of 'dblock_read_only'"});
  CHECK(is_wrong_host(said));
  CHECK(make_error("cannot x", "mysql://h/d", said, Phase::connect).code == Errc::unreachable);
  const auto left = wrong_host_error(
      {1123, "Can't initialize function 'group_replication_get_communication_protocol'; Member must be"});
  CHECK(is_wrong_host(left));
  for (const auto phase : {Phase::connect, Phase::write, Phase::commit}) {
    CHECK(make_error("cannot x", "mysql://h/d", left, phase).code == Errc::unreachable);
  }
  CHECK(make_error("cannot x", "mysql://h/d", left, Phase::write).message ==
        "cannot x on mysql://h/d: the server is not an ONLINE member of its replication group (error 1123); "
        "run START GROUP_REPLICATION on it, or name the other members in the URL");
  for (const unsigned native : {3783U, 3796U, 3799U})
    CHECK(wrong_host_error({native, "words"}).native == left.native);
  const auto lags = wrong_host_error({3797, "words"});
  CHECK(is_wrong_host(lags));
  CHECK(make_error("cannot x", "mysql://h/d", lags, Phase::write).message ==
        "cannot x on mysql://h/d: the server has not caught up with its replication group in time, or is "
        "about to leave it (error 3797)");
  const ServerError schema{1231, "Variable 'sql_mode' can't be set to the value of 'dblock_schema_1'"};
  CHECK(wrong_host_error(schema).native == 1231);
}

TEST_CASE("every session but a reading one makes sure that the server takes writes", "[safety]") {
  SessionOptions reading;
  reading.reads_only = true;
  for (const auto check : {SchemaCheck::on, SchemaCheck::off}) {
    for (const bool mariadb : {true, false}) {
      CHECK(setup_statement(mariadb, {}, check).find("global.read_only") != std::string::npos);
      CHECK(setup_statement(mariadb, reading, check).find("global.read_only") == std::string::npos);
    }
  }
  // Before the request shows itself: it must not be there on a replica, whose named locks nobody else sees.
  const lease::OwnerId own{"me"};
  const auto sql = setup_statement(true, {}, SchemaCheck::on, &own);
  CHECK(sql.find("read_only") < sql.find("GET_LOCK"));
}

}  // namespace dblock::store::mariadb
