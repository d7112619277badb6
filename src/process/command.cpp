#include "process/command.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/text.hpp"

namespace dblock::process {
namespace {

// 0 when `path` can be executed, else the errno that says why not.
int why_not_executable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) return errno;
  return 0;
}

std::unexpected<Error> cannot_run(const std::string& path, int err) {
  const std::string hint =
      err == EISDIR ? "it is a directory; name a program" : "make it executable (chmod +x) or name another";
  const std::string attempt = "cannot run " + quote_untrusted(path);
  return fail(Errc::cannot_run, with_errno(attempt, err) + "; " + hint, static_cast<unsigned>(err));
}

std::unexpected<Error> not_found(std::string_view name, std::string_view where) {
  // A blank in the name: most likely a shell line that was quoted as one word.
  const std::string hint = name.find_first_of(" \t\n") == std::string_view::npos
                               ? std::string(where)
                               : "; to have a shell run this line, write -c " + shell_quote(name);
  return fail(Errc::not_found, "cannot find the command " + quote_untrusted(name) + hint, ENOENT);
}

bool is_absent(int err) {
  return err == ENOENT || err == ENOTDIR;
}

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

}  // namespace

Result<std::string> find_command(std::string_view name, const char* path) {
  if (name.find('/') != std::string_view::npos) {
    std::string file(name);
    const int err = why_not_executable(file);
    if (err == 0) return file;
    if (is_absent(err)) return not_found(name, "; check the path");
    return cannot_run(file, err);
  }
  if (name.empty()) return not_found(name, "; its name is empty: is a variable not set?");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  std::string refused;  // the first file found that is not executable; execvp(3) goes on looking, too
  int refused_errno = 0;
  for (bool more = true; more;) {
    const auto colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
    std::string file =
        folder.empty() ? "./" + std::string(name) : std::string(folder) + "/" + std::string(name);
    const int err = why_not_executable(file);
    if (err == 0) return file;
    if (!is_absent(err) && refused.empty()) {
      refused = std::move(file);
      refused_errno = err;
    }
  }
  if (refused_errno == EACCES) return cannot_run(refused, refused_errno);
  return not_found(name, " in PATH; cron's PATH is short, give the full path");
}

// Drops each inherited entry whose name is changed. So an inner run's values win, whether a program takes the
// first or the last of two entries with the same name.
std::vector<char*> changed_environment(std::string& changes) {
  std::map<std::string_view, char*> changed;  // the last change of each name counts
  for (std::size_t at = 0; at < changes.size(); at += std::strlen(&changes[at]) + 1)
    changed[name_of(&changes[at])] = &changes[at];
  std::vector<char*> merged;
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    if (!changed.contains(name_of(*inherited))) merged.push_back(*inherited);
  }
  for (const auto& [name, entry] : changed) {
    if (entry[name.size()] == '=') merged.push_back(entry);
  }
  merged.push_back(nullptr);
  return merged;
}

std::string join_changes(const std::vector<std::string>& changes) {
  std::string joined;
  for (const std::string& change : changes) joined.append(change, 0, change.find('\0')).push_back('\0');
  return joined;
}

}  // namespace dblock::process
