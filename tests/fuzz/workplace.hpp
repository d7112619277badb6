// A directory of this process's own, gone with it, for the files of one input.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dblock::fuzz {

// Where the files of the input lie; made on first use.
[[nodiscard]] inline const std::string& workplace() {
  struct Place {
    Place() {
      ::umask(022);  // what everybody may write is not read
      if (::mkdtemp(path.data()) == nullptr) std::abort();
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { std::filesystem::remove_all(path); }
    std::string path = (std::filesystem::temp_directory_path() / "dblock-fuzz-XXXXXX").string();
  };
  static const Place place;
  return place.path;
}

inline void write_here(const std::string& name, const std::string& bytes) {
  std::ofstream(workplace() + "/" + name, std::ios::binary) << bytes;
}

}  // namespace dblock::fuzz
