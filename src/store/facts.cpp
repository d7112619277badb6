#include "store/facts.hpp"

namespace dblock::store {
namespace {

std::optional<std::string> first_of(const Names& names, std::initializer_list<std::string_view> wanted) {
  for (const auto name : wanted) {
    const auto it = names.find(name);
    if (it != names.end()) return it->second;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> HostFacts::variable(std::initializer_list<std::string_view> names) const {
  return first_of(variables, names);
}

std::optional<std::string> HostFacts::state(std::initializer_list<std::string_view> names) const {
  return first_of(status, names);
}

bool HostFacts::is_on(std::initializer_list<std::string_view> names) const {
  const auto value = variable(names);
  return value == "ON" || value == "1";
}

// MariaDB 12 has further values that mean read-only, besides ON.
bool HostFacts::is_read_only() const {
  const auto value = variable({"read_only"});
  const bool off = !value || *value == "OFF" || *value == "0";
  return !off || is_on({"super_read_only", "transaction_read_only", "tx_read_only"});
}

bool HostFacts::in_galera() const {
  return is_on({"wsrep_on"});
}

std::string HostFacts::replication_group() const {
  return variable({"group_replication_group_name"}).value_or("");
}

}  // namespace dblock::store
