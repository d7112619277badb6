#include <sys/stat.h>

#include "base/small_file.hpp"
#include "store/settings_parts.hpp"

namespace dblock::store {

Result<std::string> read_password_file(const std::string& path, std::vector<std::string>& warnings) {
  DBLOCK_TRY(auto file, read_small_file(path, "password file"));
  if (!file)
    return fail(Errc::config,
                "there is no password file " + path + "; name one that the user who runs dblock may read");
  if (S_ISREG(file->mode) && (file->mode & (S_IRGRP | S_IROTH)) != 0)
    warnings.push_back("others may read password file " + path + "; chmod 600 it");
  if (file->text.ends_with('\n')) file->text.pop_back();
  return std::move(file->text);
}

}  // namespace dblock::store
