#include "support/privilege.hpp"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <stdexcept>

namespace dblock::test {

UsersHome::UsersHome(uid_t user) : user_(user) {
  namespace fs = std::filesystem;
  fs::copy_file(dblock_binary(), binaries_.file("dblock"));
  fs::permissions(binaries_.path(), fs::perms(0755));
  if (::chown(home_.path().c_str(), user, user) != 0)
    throw std::runtime_error("cannot give a directory away");
}

Spawn UsersHome::spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& env) const {
  Spawn spec;
  // bare_environment's HOME comes first, and the first of a name is the one that getenv() finds.
  spec.argv = {"env", "HOME=" + home_.path(), binaries_.file("dblock")};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.env = env;
  spec.cwd = home_.path();
  spec.user = user_;
  return spec;
}

Finished in_mount_namespace(const std::string& script, const std::vector<std::string>& env) {
  Spawn spec;
  spec.argv = {"unshare", "--mount", "/bin/sh", "-euc", script};
  spec.env = env;
  spec.env.push_back("DBLOCK=" + dblock_binary());
  return run_program(spec);
}

std::string why_no_program(const std::string& name) {
  const auto found = run_program({.argv = {"/bin/sh", "-c", "command -v " + name}});
  return found.exit == exited(0) ? "" : name + " is not installed";
}

std::string why_no_other_user() {
  return ::geteuid() == 0 ? "" : "only root may become another user";
}

std::string why_no_mount_namespace() {
  const auto tried = run_program({.argv = {"unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"}});
  return tried.exit == exited(0) ? "" : "no mount namespace of one's own: " + tried.err;
}

std::string why_no_preload() {
  return slowness() == 1 ? "" : "sanitizers want to be the first library of a program";
}

std::string why_no_faketime() {
  if (faketime_library().empty()) return "libfaketime is not installed (Debian: libfaketime)";
  return why_no_preload();
}

const std::string& faketime_library() {
  static const std::string path = DBLOCK_TEST_FAKETIME;
  return path;
}

std::vector<std::string> clock_shifted_by(const std::string& shift) {
  return {"LD_PRELOAD=" + faketime_library(), "FAKETIME=" + shift};
}

std::string faketime_library_for_threads() {
  std::string library = faketime_library();
  const std::string plain = "libfaketime.so";
  return library.replace(library.rfind(plain), plain.size(), "libfaketimeMT.so");
}

std::vector<std::string> clocks_times(long rate) {
  std::string told = "DBLOCK_TEST_CLOCK=" + std::to_string(rate);
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME}) {
    timespec now{};
    ::clock_gettime(clock, &now);
    told += ":" + std::to_string(now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  }
  return {told, "LD_PRELOAD=" DBLOCK_TEST_FAST_CLOCK};
}

void SteppedClock::step(const std::string& to) const {
  write_file(file_ + ".new", to + "\n");
  std::filesystem::rename(file_ + ".new", file_);
}

std::vector<std::string> SteppedClock::env(bool threads, bool monotonic_too) const {
  std::vector<std::string> all{
      "LD_PRELOAD=" + (threads ? faketime_library_for_threads() : faketime_library()),
      "FAKETIME_TIMESTAMP_FILE=" + file_, "FAKETIME_NO_CACHE=1"};
  if (!monotonic_too) all.emplace_back("FAKETIME_DONT_FAKE_MONOTONIC=1");
  return all;
}

std::vector<std::string> refusing(const std::string& what) {
  return {what, "LD_PRELOAD=" DBLOCK_TEST_REFUSALS};
}
std::vector<std::string> failing(const std::string& call, int number, const std::string& part) {
  return refusing("DBLOCK_TEST_FAIL=" + call + ":" + std::to_string(number) + ":" + part);
}

}  // namespace dblock::test
