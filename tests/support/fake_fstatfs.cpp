// Preloaded into dblock: every file lies on the kind of file system that FAKE_FS_TYPE names (a number, as in
// linux/magic.h).
#include <dlfcn.h>
#include <sys/statfs.h>

#include <cstdlib>

namespace {

template <typename Function, typename Where>
int asked(const char* name, Where where, struct statfs* info) {
  auto* const real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
  const int result = real(where, info);
  const char* const type = std::getenv("FAKE_FS_TYPE");
  if (result == 0 && type != nullptr) info->f_type = std::strtol(type, nullptr, 0);
  return result;
}

}  // namespace

extern "C" int fstatfs(int fd, struct statfs* info) noexcept {
  return asked<int (*)(int, struct statfs*)>("fstatfs", fd, info);
}

extern "C" int statfs(const char* path, struct statfs* info) noexcept {
  return asked<int (*)(const char*, struct statfs*)>("statfs", path, info);
}
