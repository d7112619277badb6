#include "store/mariadb/sql.hpp"

#include "base/text.hpp"

namespace dblock::store::mariadb {
namespace {

void append(std::string& sql, const Scalar& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    sql += std::to_string(*number);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    sql += std::to_string(*natural);
  } else if (const auto* word = std::get_if<Word>(&value)) {
    sql.append("'").append(word->text).append("'");
  } else if (const auto* text = std::get_if<Text>(&value)) {
    sql.append("_utf8mb4 ").append(bytes_literal(text->text));
  } else if (const auto* bytes = std::get_if<std::string>(&value)) {
    sql += bytes_literal(*bytes);
  } else {
    sql += "NULL";
  }
}

// Appends a list as a,b,c or, with several columns, as (a,b),(c,d).
void append(std::string& sql, const List& list) {
  for (std::size_t i = 0; i < list.values.size(); ++i) {
    if (i > 0) sql += ',';
    if (list.columns > 1 && i % list.columns == 0) sql += '(';
    append(sql, list.values[i]);
    if (list.columns > 1 && (i + 1) % list.columns == 0) sql += ')';
  }
}

// True if the statement is to carry the text of `[name|text]`.
bool is_given(std::string_view name, const Parameters& parameters, Additions added) {
  if (name == "proves_writes") return added.proves_writes;
  if (name == "proves_membership") return added.proves_writes && added.proves_membership;
  if (name == "wakes") return added.wakes;
  const Value* const value = value_of(parameters, name);
  const auto* const scalar = value != nullptr ? std::get_if<Scalar>(value) : nullptr;
  if (scalar == nullptr || std::holds_alternative<std::nullptr_t>(*scalar)) return false;
  const auto* const number = std::get_if<std::int64_t>(scalar);
  return number == nullptr || *number != 0;
}

void append_value(std::string& sql, std::string_view name, const Parameters& parameters, Additions added) {
  if (name == "mark") {
    sql += std::to_string(added.mark);
  } else if (const Value* value = value_of(parameters, name)) {
    std::visit([&sql](const auto& one) { append(sql, one); }, *value);
  } else {
    sql.append(":").append(name);
  }
}

// Text without `[name|text]`.
void append_with_values(std::string& sql, std::string_view text, const Parameters& parameters,
                        Additions added) {
  std::size_t done = 0;
  for (auto next = find_parameter(text, 0); next.colon != std::string_view::npos;
       next = find_parameter(text, done)) {
    sql += text.substr(done, next.colon - done);
    done = next.colon + 1 + next.name.size();
    append_value(sql, next.name, parameters, added);
  }
  sql += text.substr(done);
}

void append_filled_in(std::string& sql, std::string_view text, const Parameters& parameters,
                      Additions added) {
  for (auto next = find_option(text); next.begin != std::string_view::npos; next = find_option(text)) {
    append_with_values(sql, text.substr(0, next.begin), parameters, added);
    if (is_given(next.name, parameters, added)) append_with_values(sql, next.text, parameters, added);
    text.remove_prefix(next.end);
  }
  append_with_values(sql, text, parameters, added);
}

}  // namespace

std::string bytes_literal(std::string_view bytes) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string literal = "x'";
  literal.reserve(3 + 2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    literal += k_digits[byte >> 4U];
    literal += k_digits[byte & 0x0fU];
  }
  literal += '\'';
  return literal;
}

std::string render(Verb verb, const Parameters& parameters, Additions added) {
  std::string rendered;
  rendered.reserve(2 * sql(verb).size());
  append_filled_in(rendered, sql(verb), parameters, added);
  return rendered;
}

}  // namespace dblock::store::mariadb
