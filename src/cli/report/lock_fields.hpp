// The fields of a lock that inspect shows: the one list from which its table, JSON, CSV, metrics of
// Prometheus and page are made (private to the report files). For a new field, add an entry to the list in
// lock_fields.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/json.hpp"
#include "cli/report/key_rows.hpp"
#include "cli/report/table.hpp"
#include "lease/lock_status.hpp"

namespace dblock::cli {

// How the table, and the page's table, shows a field. Each rank counts from 1 on; 0: none.
struct LockColumn {
  std::size_t place = 0;  // rank from left to right; 0: the table does not show the field
  std::string_view title{};
  // What the table shows instead of the field's value. REQUIRES: the value is known.
  Cell (*cell)(const lease::LockStatus& lock) = nullptr;
  bool only_with_all = false;
  // How the column gives way where the terminal is too narrow: the lists of Layout (table.hpp), in two of
  // which it has a rank.
  bool shortened = false;
  std::size_t dropped_first = 0;
  std::size_t dropped_next = 0;
};

// What Prometheus is told of a field: a metric with a sample for each key.
struct LockMetric {
  std::size_t place = 0;  // rank in the document; 0: the field has no metric
  std::string_view name{};
  std::string_view help{};
  Sample (*sample)(const KeyRows& key) = nullptr;
  // For samples that are words: the label that has the word; the number is 1 then.
  std::string_view label{};
};

// An object in the JSON of a lock: a past run, or null.
struct LockObject {
  std::string_view name;
  std::optional<lease::PastRun> lease::LockStatus::*run;
};

struct LockField {
  std::string_view name;  // in JSON; CSV puts the name of the object before it
  // The object to which the field belongs, if any. Its value is known where there is such a run.
  const LockObject* object = nullptr;
  bool of_holder = false;  // its value is known where there is a holder
  // The value in JSON. REQUIRES: it is known.
  Json (*read)(const lease::LockStatus& lock) = nullptr;
  LockColumn column{};
  LockMetric metric{};
};

// In the order of JSON and CSV.
[[nodiscard]] std::span<const LockField> lock_fields();
using LockRank = std::size_t (*)(const LockField& field);
// The fields that have a rank, ordered by it.
[[nodiscard]] std::vector<const LockField*> ranked_fields(LockRank rank);

// The value in JSON and CSV; null where it is not known.
[[nodiscard]] Json value_of(const LockField& field, const lease::LockStatus& lock);
// "-" where the value is not known.
[[nodiscard]] Cell cell_of(const LockField& field, const lease::LockStatus& lock);

}  // namespace dblock::cli
