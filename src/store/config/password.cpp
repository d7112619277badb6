// Finds the password for a server.
#include <utility>

#include "base/small_file.hpp"
#include "store/config/password_command.hpp"
#include "store/config/settings_parts.hpp"

namespace dblock::store {
namespace {

// The file's content without one line end. Warns about a file that other users may read.
Result<std::string> read_password_file(const std::string& path, std::vector<std::string>& warnings) {
  DBLOCK_TRY(auto file, read_small_file(path, "password file"));
  if (!file)
    return fail(Errc::config,
                "there is no password file " + path + "; name one that the user who runs dblock may read");
  if (others_may_read(*file)) warnings.push_back("others may read password file " + path + "; chmod 600 it");
  std::string& text = file->text;
  if (text.ends_with('\n')) text.resize(text.size() - (text.ends_with("\r\n") ? 2 : 1));
  return std::move(text);
}

// The password that the user's command prints.
Result<std::string> ask_command(const PasswordCommand& source, bool inside, std::chrono::milliseconds limit) {
  if (inside) {
    return fail(Errc::config, "the " + source.from +
                                  " calls a dblock that needs the same password; give that dblock another "
                                  "source, or --local");
  }
  return run_password_command(source.command, source.from, limit);
}

}  // namespace

Result<void> find_password(const SettingsSources& sources, const PartialSettings& url,
                           const PartialSettings& files, MariadbSettings& out,
                           std::vector<std::string>& warnings) {
  const auto take = [&out](const std::optional<std::string>& password, std::string from) {
    out.password = password;
    out.password_from = std::move(from);
    return Result<void>();
  };
  const auto take_file = [&](const std::string& path, std::string from) -> Result<void> {
    DBLOCK_TRY(const auto password, read_password_file(path, warnings));
    return take(password, std::move(from));
  };
  if (url.password) return take(url.password, "the URL of " + sources.named_by);
  if (url.password_file) return take_file(*url.password_file, "password file " + *url.password_file);
  if (sources.password_file)
    return take_file(*sources.password_file, "DBLOCK_PASSWORD_FILE (" + *sources.password_file + ")");
  for (const auto& file : {files.password_file, sources.config_password_file}) {
    if (file) return take_file(*file, "password file " + *file);
  }
  for (const auto* const command :
       {&url.password_command, &files.password_command, &sources.password_command}) {
    if (!*command) continue;
    DBLOCK_TRY(auto password, ask_command(**command, sources.in_password_command, out.connect_timeout));
    // Such a password may not last as long as a lease, and a session does.
    if (out.connection == HolderSession::automatic) out.connection = HolderSession::keep;
    return take(std::move(password), (*command)->from);
  }
  if (sources.password) return take(sources.password, "DBLOCK_PASSWORD");
  if (files.password) return take(files.password, files.password_from);
  return {};
}

}  // namespace dblock::store
