# Cross-build for arm64 with Debian's compiler against the packages in DBLOCK_ARM64_ROOT; run.sh makes that directory.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DBLOCK_ARM64_ROOT)

set(CMAKE_SYSROOT ${DBLOCK_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_DIR} "")
set(ENV{PKG_CONFIG_LIBDIR} "${DBLOCK_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${DBLOCK_ARM64_ROOT}")

# The binaries name their loader and libraries by full path. So the kernel can start each of them by itself, whatever
# environment a test gives it, and this machine's own directories stay as they are. RPATH and not RUNPATH: it also
# counts for what libraries load in turn.
set(libraries ${DBLOCK_ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
string(CONCAT CMAKE_EXE_LINKER_FLAGS_INIT
  "-Wl,--dynamic-linker=${libraries}/ld-linux-aarch64.so.1 "
  "-Wl,--disable-new-dtags -Wl,-rpath,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
