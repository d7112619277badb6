#include "store/sqlite/witness.hpp"

#include <unistd.h>

#include <array>
#include <utility>

#include "store/sqlite/file.hpp"

namespace dblock::store::sqlite {
namespace {

// The file's content. It lies within one page, so one system call reads or writes all of it.
struct Record {
  std::uint64_t changes = 0;
  std::array<char, 56> boot_id{};  // padded with zeros
};
static_assert(sizeof(Record) == 64);

std::array<char, 56> padded(const std::string& boot_id) {
  std::array<char, 56> text{};
  boot_id.copy(text.data(), text.size());
  return text;
}

}  // namespace

Witness::Witness(const std::string& database_path, std::string boot_id)
    : path_(database_path + "-seen"), boot_id_(std::move(boot_id)) {}

std::uint64_t Witness::changes_seen() {
  if (!file_) file_ = open_side_file(path_, WhenMissing::leave);
  Record record;
  if (!file_ || ::pread(file_.get(), &record, sizeof record, 0) != sizeof record) return 0;
  return record.boot_id == padded(boot_id_) ? record.changes : 0;
}

void Witness::note(std::uint64_t changes) {
  if (!file_) file_ = open_side_file(path_, WhenMissing::make);
  if (!file_) return;
  const Record record{changes, padded(boot_id_)};
  [[maybe_unused]] const auto n = ::pwrite(file_.get(), &record, sizeof record, 0);
}

}  // namespace dblock::store::sqlite
