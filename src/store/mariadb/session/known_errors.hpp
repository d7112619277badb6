// The one table of the error numbers, of the servers and of the client library, whose meaning is known.
// Private to errors.cpp.
#pragma once

#include <array>

#include "base/error.hpp"
#include "store/mariadb/session/errors.hpp"

namespace dblock::store::mariadb {

inline constexpr unsigned k_no_database = 1046;
inline constexpr unsigned k_no_such_database = 1049;
inline constexpr unsigned k_name_too_long = 1059;
inline constexpr unsigned k_wrong_database_name = 1102;
inline constexpr unsigned k_no_text = 1300;  // MariaDB's answer to a name of a database that is no UTF-8
inline constexpr unsigned k_tls_demanded = 3159;
inline constexpr unsigned k_wrong_variable_value = 1231;
// InnoDB cannot log this transaction isolation as statements.
inline constexpr unsigned k_needs_row_logging = 1665;
inline constexpr unsigned k_lock_nowait = 3572;  // NOWAIT met a locked row on MySQL; MariaDB's number is 1205
inline constexpr unsigned k_no_plugin = 2059;    // CR_AUTH_PLUGIN_CANNOT_LOAD

// What an error number means. A connection that ends with another number may succeed later, and whether a
// statement that ends with another number was done is not known: add none that may come after it was done.
struct Known {
  unsigned native;
  Errc code;
};
inline constexpr std::array k_known{
    // Login or privilege refused: a second try would not help.
    Known{1044, Errc::denied},  // no right to the database
    Known{k_access_denied, Errc::denied},
    Known{1095, Errc::denied},
    Known{1130, Errc::denied},  // no account for this host
    Known{1131, Errc::denied},
    Known{1132, Errc::denied},
    Known{1133, Errc::denied},
    Known{k_table_denied, Errc::denied},
    Known{1143, Errc::denied},
    Known{1227, Errc::denied},
    Known{1251, Errc::denied},  // the client's way to log in is too old
    Known{1275, Errc::denied},  // the account's is
    Known{1370, Errc::denied},
    Known{1396, Errc::denied},
    Known{1410, Errc::denied},
    Known{1524, Errc::denied},  // the server lacks the account's plugin
    Known{k_access_denied_no_password, Errc::denied},
    Known{1820, Errc::denied},  // the password has expired
    Known{k_password_expired, Errc::denied},
    Known{2049, Errc::denied},  // CR_SECURE_AUTH
    Known{2054, Errc::denied},  // CR_NOT_IMPLEMENTED: a way to log in
    Known{k_no_plugin, Errc::denied},
    Known{2061, Errc::denied},  // CR_AUTH_PLUGIN_ERR
    Known{3118, Errc::denied},  // the account is locked
    Known{3955, Errc::denied},
    Known{4151, Errc::denied},
    Known{k_plugin_not_allowed, Errc::denied},
    Known{5012, Errc::denied},  // CR_ERR_LOAD_PLUGIN
    // The settings, or the server's, must change.
    Known{k_no_such_database, Errc::config},
    Known{k_name_too_long, Errc::config},
    Known{k_wrong_database_name, Errc::config},
    Known{k_no_database, Errc::config},  // MySQL's answer to a name that is no text
    Known{k_no_text, Errc::config},
    Known{1115, Errc::config},  // the server does not know utf8mb4
    Known{k_needs_row_logging, Errc::config},
    Known{3098, Errc::config},            // no table for a replication group: no primary key, or not InnoDB
    Known{2007, Errc::config},            // CR_VERSION_ERROR: another protocol
    Known{2019, Errc::config},            // CR_CANT_READ_CHARSET
    Known{2047, Errc::config},            // CR_CONN_UNKNOWN_PROTOCOL
    Known{k_tls_demanded, Errc::config},  // of every connection
    Known{5004, Errc::config},            // CR_FILE_NOT_FOUND: of TLS
    Known{5005, Errc::config},            // CR_FILE_READ
    Known{5008, Errc::config},            // CR_VERSION_MISMATCH
    // dblock's tables are not as this binary knows them.
    Known{1054, Errc::schema},
    Known{1136, Errc::schema},
    Known{k_no_such_table, Errc::schema},
    Known{k_no_such_key, Errc::schema},
    Known{1932, Errc::schema},
    // The server did nothing, but may do it later, or another server may.
    Known{1020, Errc::unreachable},
    Known{1040, Errc::unreachable},  // no connection left
    Known{1114, Errc::unreachable},
    Known{1129, Errc::unreachable},  // too many broken connections of this host
    Known{1152, Errc::unreachable},
    Known{1203, Errc::unreachable},
    Known{k_lock_wait_timed_out, Errc::unreachable},
    Known{k_deadlock, Errc::unreachable},
    Known{1226, Errc::unreachable},  // the account's share is used up
    Known{1792, Errc::unreachable},
    Known{1836, Errc::unreachable},
    Known{k_lock_nowait, Errc::unreachable},
    // A member of a replication group held the statement back before it began, and gave up. 3100 and 3101 end
    // a commit, and are in no list: a member that leaves its group (without a majority, for example) ends so
    // what it has sent to the others, and they may have committed it. Usually 3101 means that another
    // member's transaction came first, but the number does not tell: see Connection::refusal().
    Known{3781, Errc::unreachable},  // a new primary applies its backlog
    Known{3782, Errc::unreachable},
    Known{3798, Errc::unreachable},  // group_replication_consistency=AFTER, of another transaction
    Known{4094, Errc::unreachable},  // the group changes its primary
    // The server refused the statement itself: a bug in dblock, or a table changed by hand. Nothing was done.
    Known{k_null_refused, Errc::internal},
    Known{k_duplicate_key, Errc::internal},
    Known{1064, Errc::internal},
    Known{1149, Errc::internal},
    Known{k_unknown_variable, Errc::internal},
    Known{1235, Errc::internal},
    Known{1264, Errc::internal},
    Known{1265, Errc::internal},
    Known{1292, Errc::internal},
    Known{k_no_such_function, Errc::internal},
    Known{1364, Errc::internal},
    Known{1366, Errc::internal},
    Known{1406, Errc::internal},
    Known{1411, Errc::internal},
    Known{1690, Errc::internal},
    Known{k_wrong_variable_value, Errc::internal},
    Known{3819, Errc::internal},
    Known{4025, Errc::internal},
};

}  // namespace dblock::store::mariadb
