#include "store/mariadb/sql.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <regex>

#include "store/mariadb/routine_text.hpp"
#include "store/mariadb/session/errors.hpp"
#include "store/mariadb/session/session_statements.hpp"
#include "store/parameters.hpp"
#include "support/catch.hpp"

namespace dblock::store::mariadb {
namespace {

using namespace std::chrono_literals;

lease::Key key(std::string_view bytes) {
  return *lease::Key::parse(bytes);
}

lease::LeaseRequest request() {
  return {key("k"),        {},
          {"owner"},       lease::Kind::run,
          {2min, 3s, 15s}, {"host", 1, "user", "cmd", "it's a \\ note"}};
}

lease::LeaseRequest request_with_promises() {
  auto wanted = request();
  wanted.promises = {5min, {}, lease::OncePer{24h}};
  return wanted;
}

// All that a grant of two keys is given.
Parameters place(const lease::LeaseRequest& wanted, std::uint32_t slot) {
  return grant_parameters(wanted, wanted.key) + row_parameters(wanted.key, slot) +
         Parameters{
             {"token", Scalar(std::uint64_t{7})},
             {"keys", List{1, {wanted.key.bytes(), std::string("l")}}},
             {"rows", List{2, {wanted.key.bytes(), std::int64_t{slot}, std::string("l"), std::int64_t{2}}}}};
}

std::vector<std::string> all_statements() {
  auto wanted = request_with_promises();
  wanted.arrival = lease::ServerTime{1h};
  wanted.line = lease::Line::newest;
  lease::LockStatus seen;
  seen.key = "k";
  seen.owner = "owner";
  const lease::LeaseRef ref{key("k"), {"owner"}, lease::Token{7}};
  const auto everything = place(wanted, 1) + ref_parameters(ref, lease::Actor::holder) +
                          end_parameters({lease::RunOutcome::succeeded, 0}) + past_parameters(seen) +
                          place_parameters(wanted, 75s) +
                          selection_parameters({{key("k"), key("l")}, "pre", true}) +
                          forget_parameters(24h, 10) +
                          Parameters{{"was_released", flag(true)},
                                     {"since", micros_or_null(1h)},
                                     {"line_until", time_or_null(lease::ServerTime{2s})},
                                     {"before", Scalar(std::uint64_t{3})}};
  std::vector<std::string> statements{setup_statement(true, {}, SchemaCheck::on),
                                      setup_statement(false, {}, SchemaCheck::off)};
  for (auto verb = Verb::grant; verb <= Verb::forget_runs;
       verb = static_cast<Verb>(static_cast<std::uint8_t>(verb) + 1)) {
    if (!sql(verb).empty()) statements.push_back(render(verb, everything));
  }
  return statements;
}

}  // namespace

TEST_CASE("a session may not sit in a transaction for long, where the server knows such a limit") {
  CHECK(setup_statement(true, {}, SchemaCheck::on).find(",idle_transaction_timeout=2") != std::string::npos);
  CHECK(setup_statement(false, {}, SchemaCheck::on).find("idle_transaction_timeout") == std::string::npos);
}

TEST_CASE("only a server of MariaDB that knows Galera is asked to let reads catch up") {
  const std::string variable = "wsrep_sync_wait=1";
  CHECK(setup_statement(true, {}, SchemaCheck::on).find(variable) != std::string::npos);
  CHECK(setup_statement(true, {}, SchemaCheck::on, nullptr, false).find(variable) == std::string::npos);
  CHECK(setup_statement(false, {}, SchemaCheck::on).find(variable) == std::string::npos);
}

TEST_CASE("values become hexadecimal literals whatever they hold") {
  CHECK(bytes_literal("k") == "x'6b'");
  CHECK(bytes_literal("") == "x''");
  CHECK(bytes_literal(std::string_view("\0'\\\xff", 4)) == "x'00275cff'");
  const auto note = [](const Scalar& value) {
    const auto statement = render(Verb::add_fence, {{"key", value}, {"slot", Scalar(std::int64_t{1})}});
    return statement.substr(statement.find("VALUES ("));
  };
  CHECK(note(Text{"é"}) == "VALUES (_utf8mb4 x'c3a9',1,0)");
  CHECK(note(std::string("'")) == "VALUES (x'27',1,0)");
  CHECK(note(nullptr) == "VALUES (NULL,1,0)");
  CHECK(note(std::int64_t{-2500000}) == "VALUES (-2500000,1,0)");
  CHECK(note(std::numeric_limits<std::uint64_t>::max()) == "VALUES (18446744073709551615,1,0)");
}

TEST_CASE("a statement of which a parameter has no value is one that no server takes", "[safety]") {
  CHECK(render(Verb::add_fence, {{"key", Scalar(nullptr)}}).ends_with(" VALUES (NULL,:slot,0)"));
}

TEST_CASE("no statement uses what the lease protocol forbids", "[safety]") {
  for (auto statement : all_statements()) {
    CAPTURE(statement);
    CHECK(statement.find(":k") == std::string::npos);
    if (statement.find("NOWAIT") != std::string::npos || statement.find("SKIP LOCKED") != std::string::npos ||
        statement.starts_with("CREATE"))
      continue;
    for (const auto* const forbidden : {"NOW()", "SYSDATE", "CURRENT_TIMESTAMP", "REPLACE", "IGNORE",
                                        "ON DUPLICATE", "RETURNING", "FOR UPDATE", ";", "\\"}) {
      CHECK(statement.find(forbidden) == std::string::npos);
    }
    CHECK(statement.find("it's") == std::string::npos);
    const bool decides = statement.starts_with("UPDATE") || statement.starts_with("DELETE");
    if (decides) {
      // The question whether a history is kept decides nothing.
      const std::string kept =
          "EXISTS(SELECT 1 FROM dblock_schema USE INDEX (PRIMARY) WHERE version=1 AND keeps_history)";
      if (const auto at = statement.find(kept); at != std::string::npos) statement.erase(at, kept.size());
      if (statement.starts_with("UPDATE dblock_schema ")) continue;
      // Nor does what only refuses, or only writes until when it is refused.
      for (const std::string query :
           {"0=(SELECT COUNT(*) FROM dblock_pause AS pause USE INDEX (PRIMARY) WHERE pause.end_time",
            "(SELECT MAX(pause.end_time) FROM dblock_pause AS pause USE INDEX (PRIMARY) WHERE",
            "0=(SELECT COUNT(*) FROM dblock_waiter AS place USE INDEX (PRIMARY) WHERE "
            "place.lock_key=lease.lock_key",
            "(SELECT MAX(place.seen_until) FROM dblock_waiter AS place USE INDEX (PRIMARY) WHERE "
            "place.lock_key=lease.lock_key"}) {
        for (auto at = statement.find(query); at != std::string::npos; at = statement.find(query))
          statement.erase(at, query.size());
      }
      CHECK(statement.find("SELECT") == std::string::npos);
      // The few pauses, and places that count no more, are no locks; a statement may look at all of them.
      if (statement.starts_with("UPDATE dblock_pause") || statement.starts_with("DELETE FROM dblock_pause") ||
          statement.starts_with("DELETE pause FROM") || statement.starts_with("DELETE place FROM"))
        continue;
      const auto by_key = {" WHERE lock_key=",         " WHERE lease.lock_key=", " WHERE lease.lock_key IN (",
                           " WHERE own.lock_key IN (", " WHERE (lock_key,",      " WHERE lock_key IN ("};
      CHECK(std::ranges::any_of(
          by_key, [&](const char* where) { return statement.find(where) != std::string::npos; }));
    }
  }
}

TEST_CASE("each statement names an index of the tables that it reads or changes, which no view has",
          "[safety]") {
  const std::regex without_index(
      R"((FROM|JOIN|UPDATE) dblock_[a-z]+\b(?!( AS [a-z]+)? (USE|FORCE) INDEX \())");
  // The one kind of statement that cannot, besides INSERT.
  const std::regex one_table("DELETE FROM dblock_[a-z]+");
  auto statements = all_statements();
  for (const auto& procedure : procedures()) statements.emplace_back(procedure.sql);
  for (const auto& statement : statements) {
    CAPTURE(statement);
    CHECK_FALSE(std::regex_search(std::regex_replace(statement, one_table, ""), without_index));
  }
}

TEST_CASE("a procedure's text is dblock's whichever parts the server and a restored dump have left out") {
  const std::string sql =
      "CREATE PROCEDURE p(IN a INT) COMMENT 'x'\nBEGIN\n  -- It's why.\n  SET x = 'a  -- b'; /*M! DO 1; */ "
      "/*!50701 DO "
      "2; */\n  DO 3; END";
  for (const auto* const body :
       {"BEGIN\n  -- It's why.\n  SET x = 'a  -- b';  DO 1;  \n  DO 3; END",
        "BEGIN SET x = 'a  -- b'; DO 2; DO 3; END", "BEGIN\nSET x = 'a  -- b';\nDO 3; END"})
    CHECK(is_body_of(body, sql));
  for (const auto* const body :
       {"", "BEGIN SET x = 'a  -- b'; DO 1; DO 2; DO 3;", "BEGIN SET x = 'a -- b'; DO 3; END",
        "BEGIN SET x = 'a  -- b'; DO 4; DO 3; END", "BEGIN SET x = 'a  -- b'; DO 3; END END",
        "BEGIN SET x = '-- '; DO 4; SET x = '\na  -- b'; DO 3; END",
        "BEGIN SET x = '\\'-- '; DO 4;\na  -- b'; DO 3; END",
        "BEGIN SET x = 'a  -- b'; /*!50701 DO 4; */ DO 3; END",
        "BEGIN SET x = 'a  -- b'; /* DO 4; */ DO 3; END", "'", "BEGIN SET x = 'a"}) {
    CAPTURE(body);
    CHECK_FALSE(is_body_of(body, sql));
  }
}

TEST_CASE("only a statement for a replication group's member asks whether the server is one", "[safety]") {
  constexpr const char* function = "group_replication_get_communication_protocol()";
  for (const auto verb : {Verb::grant, Verb::grant_rows, Verb::grant_beside, Verb::renew, Verb::release}) {
    const auto asks = [&](Additions added) {
      return render(verb, place(request(), 0), added).find(function) != std::string::npos;
    };
    CHECK(asks({.proves_writes = true, .proves_membership = true}));
    CHECK_FALSE(asks({.proves_writes = true}));
    CHECK_FALSE(asks({}));
  }
}

TEST_CASE("a release that wakes frees the named lock of its request, and no other statement does") {
  const auto frees = [](Verb verb, Additions added) {
    return render(verb, place(request(), 0), added).find("RELEASE_LOCK(CONCAT('dblock.'") !=
           std::string::npos;
  };
  CHECK(frees(Verb::release, {.proves_writes = true, .wakes = true}));
  CHECK_FALSE(frees(Verb::release, {.proves_writes = true}));
  for (const auto verb : {Verb::release_rows, Verb::release_keys, Verb::unnest, Verb::renew, Verb::free_now})
    CHECK_FALSE(frees(verb, {.proves_writes = true, .wakes = true}));
}

TEST_CASE("a try names the fence by a key that it has only while the lock is free", "[safety]") {
  const auto verb = GENERATE(Verb::grant, Verb::grant_in_line, Verb::first_grant);
  const auto statement = render(verb, place(request_with_promises(), 0));
  CAPTURE(statement);
  const std::string condition = "fence.lock_key=IF(";
  REQUIRE(statement.find(condition) != std::string::npos);
  const auto from = statement.find(condition) + condition.size();
  const auto is_free = statement.substr(from, statement.find(",lease.lock_key,NULL)") - from);
  for (const auto* const part :
       {"mode='exclusive'", "lock_value IS NULL", "margin_us", "hold_until", "success", "paused_until"})
    CHECK(is_free.find(part) != std::string::npos);
  CHECK(statement.ends_with(" WHERE lease.lock_key=x'6b' AND lease.slot=0"));
  // One that reads no line is refused where somebody may be waiting.
  CHECK((statement.find("SELECT") == std::string::npos) == (verb == Verb::grant));
  CHECK((is_free.find("line_until<=") != std::string::npos) == (verb == Verb::grant));
  CHECK((is_free.find("0=(SELECT COUNT(*) FROM dblock_waiter") == std::string::npos) ==
        (verb == Verb::grant));
  const auto* const of_new_rows =
      "pause_key=IF(pause.is_prefix,LEFT(lease.lock_key,LENGTH(pause.pause_key)),lease.lock_key)";
  CHECK((is_free.find(" AND lease.token>0") != std::string::npos) == (verb != Verb::first_grant));
  CHECK(is_free.ends_with(std::string(of_new_rows) + ")") == (verb == Verb::first_grant));
}

TEST_CASE("only a request that makes way for newer ones is refused for a grant that came after it") {
  auto wanted = request();
  const auto asks = [&] {
    return render(Verb::grant_in_line, place(wanted, 0)).find("lease.arrived_at<=") != std::string::npos;
  };
  CHECK_FALSE(asks());
  wanted.line = lease::Line::newest;
  CHECK(asks());
}

TEST_CASE("a session shows which request is there, by the owner id alone, and waits for nothing") {
  const lease::OwnerId own{"it's me"};
  const auto statement = setup_statement(true, {}, SchemaCheck::on, &own);
  CHECK(statement.find("/'," + bytes_literal(own.text)) != std::string::npos);
  CHECK(statement.find("256),48)),0)=1") != std::string::npos);
  CHECK(setup_statement(true, {}, SchemaCheck::on).find("GET_LOCK") == std::string::npos);
}

TEST_CASE("readers and slots pass nobody's fence but their own", "[safety]") {
  auto wanted = request();
  wanted.sharing = {lease::Mode::slot, 3};
  const auto put = render(Verb::grant_beside, place(wanted, 2));
  CHECK(put.find("fence.lock_key=lease.lock_key AND fence.slot=lease.slot") != std::string::npos);
  CHECK(put.ends_with(" AND (lease.lock_key,lease.slot) IN ((x'6b',2),(x'6c',2))"));
  CHECK(render(Verb::wait_for_fences, row_parameters(key("k"), 2))
            .ends_with(" WHERE lock_key=x'6b' AND slot<>2"));
}

TEST_CASE("a prefix is a range of keys without wildcards") {
  const auto end_of = [](const std::string& prefix) {
    const auto statement = render(Verb::list_range, selection_parameters({{}, prefix, false}));
    const auto at = statement.find("lock_key<");
    const auto end = statement.substr(at + 9, statement.find(')', at) - at - 9);
    return end == "NULL" ? std::string() : end;
  };
  CHECK(end_of("ab") == "x'6163'");
  CHECK(end_of("a\xff") == "x'62'");
  CHECK(end_of("\xff\xff").empty());
  CHECK(render(Verb::list_range, selection_parameters({{}, "a%", false})).find("LIKE") == std::string::npos);
}

TEST_CASE("only what is known to be undone is reported as undone", "[safety]") {
  const auto code = [](unsigned native, Phase phase) {
    return make_error("cannot x", "mysql://h/d", {native, "words"}, phase).code;
  };
  for (const unsigned native : {2006U, 2013U, 2055U, 1053U, 1927U, 1317U, 1047U, 1180U, 9999U}) {
    CAPTURE(native);
    CHECK(code(native, Phase::write) == Errc::indeterminate);
    CHECK(code(native, Phase::read) == Errc::unreachable);
    CHECK(code(native, Phase::connect) == Errc::unreachable);
  }
  for (const unsigned native : {1205U, 1213U, 1040U, 1203U, 1836U, 3781U, 3782U, 3797U, 3798U}) {
    CAPTURE(native);
    CHECK(code(native, Phase::write) == Errc::unreachable);
  }
  // A member that leaves its replication group ends so what the others may have committed.
  for (const unsigned native : {3100U, 3101U}) {
    for (const auto phase : {Phase::write, Phase::commit}) CHECK(code(native, phase) == Errc::indeterminate);
  }
  CHECK(code(3098, Phase::write) == Errc::config);
  for (const unsigned native : {1044U, 1045U, 1142U, 1143U, 1227U, 1370U, 1698U})
    CHECK(code(native, Phase::write) == Errc::denied);
  CHECK(code(1049, Phase::connect) == Errc::config);
  for (const unsigned native : {1048U, 1062U, 3819U, 4025U})
    CHECK(code(native, Phase::write) == Errc::internal);
  // Refused before anything is done, since it could not be logged.
  CHECK(code(1665, Phase::write) == Errc::config);
  CHECK(make_error("", "", {1665, "x"}, Phase::write).message.find("binlog_format=ROW or MIXED") !=
        std::string::npos);
  CHECK(code(1146, Phase::write) == Errc::schema);
  CHECK(code(1054, Phase::read) == Errc::schema);
  CHECK(
      make_error("", "", {1047, "WSREP has not yet prepared node for application use"}, Phase::write).code ==
      Errc::unreachable);
}

TEST_CASE("a number of MySQL's servers above those of the client library is no broken connection") {
  // In offline mode.
  const auto error = make_error("cannot x", "mysql://h/d", {6400, "words"}, Phase::connect);
  CHECK(error.code == Errc::unreachable);
  CHECK(error.message == "cannot x on mysql://h/d: words (error 6400)");
  CHECK(is_client_side(5013));
}

TEST_CASE("what no later try mends ends a connection for good, and what may pass does not") {
  const auto code = [](const ServerError& words, Phase phase = Phase::connect) {
    return make_error("cannot x", "mysql://h/d", words, phase).code;
  };
  for (const unsigned native :
       {1046U, 1049U, 1059U, 1102U, 1115U, 1300U, 2007U, 2019U, 2047U, 3159U, 5004U}) {
    CAPTURE(native);
    CHECK(code({native, "words"}) == Errc::config);
  }
  for (const unsigned native :
       {1044U, 1045U, 1130U, 1275U, 1524U, 1862U, 2059U, 2061U, 3118U, 4151U, 5010U, 5012U}) {
    CAPTURE(native);
    CHECK(code({native, "words"}) == Errc::denied);
  }
  for (const unsigned native : {1040U, 1042U, 1043U, 1053U, 1129U, 1203U, 1226U, 2002U, 2003U, 2005U, 2006U,
                                2013U, 2026U, 2027U, 3032U, 3168U, 5013U}) {
    CAPTURE(native);
    CHECK(code({native, "words"}) == Errc::unreachable);
  }
  CHECK(code({2026, "words", true}) == Errc::config);
  // Of a statement, a number of the client library says nothing but that the connection has ended.
  for (const unsigned native : {2007U, 2019U, 2026U, 5004U})
    CHECK(code({native, "words", native == 2026}, Phase::write) == Errc::indeterminate);
}

TEST_CASE(
    "a failure of tls lasts where the settings or the server must change, not where a connection broke") {
  for (const auto* const words : {"SSL connection error: SSL is required, but the server does not support it",
                                  "TLS/SSL error: self-signed certificate in certificate chain",
                                  "TLS/SSL error: certificate has expired",
                                  "TLS/SSL error: Validation of SSL server certificate failed",
                                  "TLS/SSL error: no start line",
                                  "TLS/SSL error: key values mismatch",
                                  "TLS/SSL error: tlsv1 alert protocol version",
                                  "TLS/SSL error: unsupported protocol",
                                  "TLS/SSL error: unsupported",
                                  "TLS/SSL error: bad base64 decode",
                                  "TLS/SSL error: bad end line",
                                  "TLS/SSL error: too long",
                                  "TLS/SSL error: header too long",
                                  "TLS/SSL error: wrong tag",
                                  "TLS/SSL error: decode error",
                                  "TLS/SSL error: field missing",
                                  "TLS/SSL error: bad object header",
                                  "TLS/SSL error: processing error",
                                  "TLS/SSL error: ee key too small",
                                  "TLS/SSL error: ca md too weak"})
    CHECK(is_lasting_tls_failure({2026, words}));
  for (const auto* const words :
       {"TLS/SSL error: Connection reset by peer (104)", "TLS/SSL error: unexpected eof while reading",
        "TLS/SSL error: Success (0)", "TLS/SSL error: wrong version number",
        "TLS/SSL error: packet length too long",
        "Received error packet before completion of TLS handshake. The authenticity of the following error "
        "cannot "
        "be verified: 1040 - Too many connections"})
    CHECK_FALSE(is_lasting_tls_failure({2026, words}));
}

TEST_CASE("a way to log in whose plugin is missing is met with the package that has it") {
  for (const ServerError& words :
       {ServerError{2059, "Authentication plugin 'caching_sha2_password' cannot be loaded: no such file"},
        ServerError{1045, "Plugin caching_sha2_password could not be loaded: no such file"}}) {
    const auto error = make_error("cannot log in", "mysql://h/d", words, Phase::read);
    CHECK(error.code == Errc::denied);
    CHECK(error.message.find("package libmariadb3") != std::string::npos);
    CHECK(error.message.find("grants") == std::string::npos);
  }
}

TEST_CASE("error 1290 is about a replica only where it names an option about reading only", "[safety]") {
  const auto error = [](const std::string& option) {
    const std::string words =
        "The MariaDB server is running with the " + option + " option so it cannot execute this statement";
    return make_error("cannot x", "mysql://h/d", {1290, words}, Phase::write);
  };
  for (const char* option : {"--read-only", "--super-read-only", "--innodb-read-only"}) {
    CHECK(error(option).code == Errc::unreachable);
    CHECK(error(option).message.find("is this a replica?") != std::string::npos);
  }
  for (const char* option : {"--skip-grant-tables", "--secure-file-priv"}) {
    CHECK(error(option).code == Errc::config);
    CHECK(error(option).message.find("replica") == std::string::npos);
    CHECK(error(option).message.find("without that option") != std::string::npos);
  }
}

TEST_CASE(
    "a node of a cluster that is cut off did nothing of what it refuses at once, and perhaps of a commit",
    "[safety]") {
  const ServerError refused{1047, "WSREP has not yet prepared node for application use"};
  const ServerError broken{
      1180,
      "Error while appending streaming replication fragment(provider status: Not connected "
      "to Primary Component)"};
  const ServerError other{1047, "Unknown command"};
  CHECK(is_wrong_host(refused));
  CHECK_FALSE(is_wrong_host(broken));
  CHECK_FALSE(is_wrong_host(other));
  CHECK(is_cut_off(broken));
  CHECK_FALSE(is_cut_off(other));
  for (const auto phase : {Phase::write, Phase::commit}) {
    CHECK(make_error("", "", refused, phase).code == Errc::unreachable);
    CHECK(make_error("", "", broken, phase).code == Errc::indeterminate);
    CHECK(make_error("", "", other, phase).code == Errc::indeterminate);
  }
}

TEST_CASE("a schema that does not fit is reported with both versions and the way out") {
  const auto refused = [](unsigned version) {
    return make_error("cannot x", "mysql://h/d",
                      {1231, "Variable 'sql_mode' can't be set to the value of 'dblock_schema_" +
                                 std::to_string(version) + "'"},
                      Phase::connect);
  };
  CHECK(refused(0).code == Errc::schema);
  CHECK(refused(0).message.find("dblock migrate") != std::string::npos);
  const auto newer = refused(schema_version() + 1);
  CHECK(newer.code == Errc::schema);
  CHECK(newer.message.find("upgrade dblock") != std::string::npos);
  CHECK(make_error("", "", {1231, "Variable 'x' can't be set"}, Phase::connect).code == Errc::internal);
}

}  // namespace dblock::store::mariadb
