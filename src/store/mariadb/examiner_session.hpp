// How `doctor` asks a server.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "store/facts.hpp"
#include "store/mariadb/session/errors.hpp"
#include "store/mariadb/session/login.hpp"
#include "store/mariadb/session/result.hpp"

namespace dblock::store::mariadb {

// A server's refusal, as a fact.
[[nodiscard]] std::unexpected<Refusal> refusal(const ServerError& error);

// A session that continues after an error: for doctor a refusal is an answer.
class ExaminerSession {
 public:
  explicit ExaminerSession(Handle handle) : handle_(std::move(handle)) {}

  // The statement's rows, with column names in lower case.
  std::expected<RowSet, ServerError> ask(const std::string& sql);
  // The same for a CALL, behind whose rows the server sends the call's status.
  std::expected<RowSet, ServerError> call(const std::string& sql);
  // The first cell; empty for NULL, no row or an error.
  std::string value(const std::string& sql);
  // Runs a statement and tells whether the server answered; the rows do not matter.
  Reply attempt(const std::string& sql);
  // Reads a result of two columns, names and values.
  Names names(const std::string& sql);

  // Why the connection has broken; nullopt: it has not. What was asked since then has no answer.
  [[nodiscard]] const std::optional<ServerError>& broken() const { return broken_; }
  [[nodiscard]] std::string cipher();

 private:
  std::unexpected<ServerError> refused();

  Handle handle_;
  std::optional<ServerError> broken_;
};

}  // namespace dblock::store::mariadb
