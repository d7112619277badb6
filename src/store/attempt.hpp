// What a call tries to do, as the beginning of its error messages: "cannot renew lock "k"". It becomes text
// only where something fails.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "lease/lease.hpp"

namespace dblock::store {

class Attempt {
 public:
  // Of a call whose failure nobody is told of.
  Attempt() = default;
  // REQUIRES, for both: the first argument is a literal.
  Attempt(const char* words, std::string object = {}) : words_(words), object_(std::move(object)) {}
  Attempt(const char* verb, const lease::Key& key) : words_(verb), object_(key.bytes()), of_lock_(true) {}

  [[nodiscard]] std::string text() const;
  // An error of it: "cannot renew lock "k": why".
  [[nodiscard]] std::unexpected<Error> refuse(Errc code, const std::string& why) const;

  // While it lives, the text also names a part of the attempt, which must outlive it: "cannot migrate the
  // schema (0002_create_dblock_lock.sql)".
  class Part {
   public:
    Part(Attempt& attempt, std::string_view name) : attempt_(attempt) { attempt_.part_ = name; }
    ~Part() { attempt_.part_ = {}; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    Attempt& attempt_;
  };

 private:
  const char* words_ = "";
  std::string object_;
  std::string_view part_{};
  bool of_lock_ = false;
};

}  // namespace dblock::store
