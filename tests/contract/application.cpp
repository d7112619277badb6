#include "contract/application.hpp"

#include <stdexcept>

namespace dblock::contract {
namespace {

ProcedureAnswer only_row(const std::vector<test::Row>& rows) {
  if (rows.size() != 1 || rows.front().size() != 4)
    throw std::runtime_error("a procedure did not return one row of four columns");
  const auto& row = rows.front();
  return {row[0], row[1], row[2], row[3]};
}

std::string key_and_owner(const std::string& key, const std::string& owner) {
  return test::sql_hex(key) + "," + test::sql_hex(owner);
}

}  // namespace

ProcedureAnswer Application::acquire(const std::string& key, const std::string& owner,
                                     const AcquireArguments& arguments) {
  return call("dblock_acquire(" + key_and_owner(key, owner) + "," + arguments.ttl_ms + "," +
              arguments.margin_ms + "," + arguments.patience_ms + "," + arguments.note + ")");
}

ProcedureAnswer Application::renew(const std::string& key, const std::string& owner,
                                   const std::string& ttl_ms) {
  return call("dblock_renew(" + key_and_owner(key, owner) + "," + ttl_ms + ")");
}

ProcedureAnswer Application::release(const std::string& key, const std::string& owner) {
  return call("dblock_release(" + key_and_owner(key, owner) + ")");
}

ProcedureAnswer Application::assert_held(const std::string& key, const std::string& token) {
  session_.open_if_new();
  session_.sql_in_session("START TRANSACTION");
  try {
    auto answer = call("dblock_assert_held(" + test::sql_hex(key) + "," + token + ")");
    session_.sql_in_session("ROLLBACK");
    return answer;
  } catch (const test::SqlError&) {
    session_.sql_in_session("ROLLBACK");
    throw;
  }
}

ProcedureAnswer Application::call(const std::string& procedure_and_arguments) {
  session_.open_if_new();
  return only_row(session_.sql_in_session("CALL " + procedure_and_arguments));
}

}  // namespace dblock::contract
