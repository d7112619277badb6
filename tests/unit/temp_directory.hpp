// A directory of one test, gone with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace dblock {

class TempDirectory {
 public:
  TempDirectory() : path_((std::filesystem::temp_directory_path() / "dblock-unit-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace dblock
