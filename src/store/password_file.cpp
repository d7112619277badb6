#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "store/settings_parts.hpp"

namespace dblock::store {

Result<std::string> read_password_file(const std::string& path, std::vector<std::string>& warnings) {
  const auto refuse = [&path](int err) {
    return fail(Errc::config, with_errno("cannot read password file " + path, err) +
                                  "; name a file that the user who runs dblock may read");
  };
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return refuse(errno);
  if (S_ISDIR(info.st_mode)) return refuse(EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(errno);
  std::string password((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (S_ISREG(info.st_mode) && (info.st_mode & (S_IRGRP | S_IROTH)) != 0)
    warnings.push_back("others may read password file " + path + "; chmod 600 it");
  if (password.ends_with('\n')) password.pop_back();
  return password;
}

}  // namespace dblock::store
