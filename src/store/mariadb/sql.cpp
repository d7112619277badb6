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

// The value of :takes_no_writes.
std::string takes_no_writes(Mark mark) {
  if (!mark.proves_writes) return "FALSE";
  const std::string is_read_only = "(" + std::string(sql(Verb::takes_no_writes)) + ")";
  if (!mark.proves_membership) return is_read_only;
  return is_read_only + " OR (" + std::string(sql(Verb::is_group_member)) + ") IS NULL";
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

std::string render(Verb verb, const Parameters& parameters, Mark mark) {
  const std::string_view text = sql(verb);
  std::string rendered;
  rendered.reserve(2 * text.size());
  std::size_t done = 0;
  for (auto next = find_parameter(text, 0); next.colon != std::string_view::npos;
       next = find_parameter(text, done)) {
    rendered += text.substr(done, next.colon - done);
    done = next.colon + 1 + next.name.size();
    if (next.name == "mark") {
      rendered += std::to_string(mark.number);
    } else if (next.name == "takes_no_writes") {
      rendered += takes_no_writes(mark);
    } else if (const Value* value = value_of(parameters, next.name)) {
      std::visit([&rendered](const auto& one) { append(rendered, one); }, *value);
    } else {
      rendered.append(":").append(next.name);
    }
  }
  return rendered.append(text.substr(done));
}

}  // namespace dblock::store::mariadb
