// Finds the password for a server.
#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/small_file.hpp"
#include "store/config/password.hpp"
#include "store/config/password_command.hpp"
#include "store/config/settings_parts.hpp"

namespace dblock::store {
namespace {

// As an editor leaves one behind, or the file that a secret was made from.
std::string without_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

// The file, whose text is the content without one line end.
Result<SmallFile> read_password_file(const std::string& path) {
  DBLOCK_TRY(auto file, read_small_file(path, "password file"));
  if (!file)
    return fail(Errc::config,
                "there is no password file " + path + "; name one that the user who runs dblock may read");
  file->text = without_line_end(std::move(file->text));
  return std::move(*file);
}

// Warns about a file that other users may read. A pipe gives its password only once.
Result<void> take_from_file(const std::string& path, MariadbSettings& out,
                            std::vector<std::string>& warnings) {
  DBLOCK_TRY(auto file, read_password_file(path));
  if (others_may_read(file)) warnings.push_back("others may read password file " + path + "; chmod 600 it");
  if (S_ISREG(file.mode)) out.password_source.file = absolute_path(path);
  out.password = std::move(file.text);
  return {};
}

// Takes the password that the user's command prints. A command that may work later fails the first connection
// alone.
Result<void> take_from_command(const PasswordCommand& command, bool inside, MariadbSettings& out) {
  if (inside) {
    return fail(Errc::config, "the " + command.from +
                                  " calls a dblock that needs the same password; give that dblock another "
                                  "source, or --local");
  }
  std::error_code ignored;
  PasswordSource& source = out.password_source;
  source.command = command;
  source.command->directory = std::filesystem::current_path(ignored).string();
  auto password = run_password_command(*source.command, out.connect_timeout);
  if (!password && password.error().code != Errc::unreachable) return std::unexpected(password.error());
  // Such a password may not last as long as a lease, and a session does.
  if (out.connection == HolderSession::automatic) out.connection = HolderSession::keep;
  if (password) {
    out.password = std::move(*password);
  } else {
    source.failure = std::move(password.error());
  }
  return {};
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
  const auto take_file = [&](const std::string& path, std::string from) {
    out.password_from = std::move(from);
    return take_from_file(path, out, warnings);
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
    out.password_from = (*command)->from;
    return take_from_command(**command, sources.in_password_command, out);
  }
  if (sources.password) return take(without_line_end(*sources.password), "DBLOCK_PASSWORD");
  if (files.password) return take(files.password, files.password_from);
  return {};
}

Result<std::string> ask_for_password(MariadbSettings& settings, const std::function<bool()>& broken_off) {
  PasswordSource& source = settings.password_source;
  if (auto failure = std::exchange(source.failure, std::nullopt)) return std::unexpected(std::move(*failure));
  if (source.command) return run_password_command(*source.command, settings.connect_timeout, broken_off);
  DBLOCK_TRY(auto file, read_password_file(source.file));
  return std::move(file.text);
}

}  // namespace dblock::store
