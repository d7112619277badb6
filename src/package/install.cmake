# What `cmake --install` installs, and the Debian package that `cpack` makes of it.
option(DBLOCK_SYSTEMD_UNITS "Install the systemd service and timer for dblock reap" ON)
# Below the prefix: systemd looks in lib of /usr and of /usr/local, whatever libraries are installed in.
set(DBLOCK_SYSTEMD_UNIT_DIR lib/systemd/system CACHE STRING "Where systemd units are installed")
set(package_dir ${CMAKE_CURRENT_LIST_DIR})

install(TARGETS dblock RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

file(GLOB man_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.[1-9])
foreach(page IN LISTS man_pages)
  string(REGEX REPLACE ".*\\." "" section ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# dblock_install_completion(FILE DIRECTORY [NAME])
function(dblock_install_completion file directory)
  set(path ${PROJECT_SOURCE_DIR}/completions/${file})
  if(EXISTS ${path})
    install(FILES ${path} DESTINATION ${CMAKE_INSTALL_DATADIR}/${directory} RENAME ${ARGN})
  endif()
endfunction()
file(GLOB completions CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/completions/*) # configure again when one is added
dblock_install_completion(dblock.bash bash-completion/completions dblock)
dblock_install_completion(_dblock zsh/site-functions _dblock)
dblock_install_completion(dblock.fish fish/vendor_completions.d dblock.fish)

install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Only an example: dblock reads /etc/dblock.conf, which is outside the prefix and may be in use.
install(FILES ${package_dir}/dblock.conf DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

if(DBLOCK_SYSTEMD_UNITS)
  install(FILES ${package_dir}/dblock-reap.timer DESTINATION ${DBLOCK_SYSTEMD_UNIT_DIR})
  # The service names the binary, and where that is may be decided as late as by `cmake --install --prefix`.
  install(CODE "
    cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE prefix)
    cmake_path(APPEND prefix \"${CMAKE_INSTALL_BINDIR}\" dblock OUTPUT_VARIABLE DBLOCK_BINARY)
    configure_file(\"${package_dir}/dblock-reap.service.in\" \"${PROJECT_BINARY_DIR}/dblock-reap.service\" @ONLY)
    cmake_path(APPEND prefix \"${DBLOCK_SYSTEMD_UNIT_DIR}\" OUTPUT_VARIABLE unit_dir)
    file(INSTALL \"${PROJECT_BINARY_DIR}/dblock-reap.service\" DESTINATION \"\${unit_dir}\")
  ")
endif()

# --- cpack: a package for the Debian that it is built on.
set(DBLOCK_MAINTAINER "The dblock authors <dblock@localhost>" CACHE STRING "Maintainer of the Debian package")
set(DBLOCK_DEB_REVISION 1)
file(STRINGS ${package_dir}/deb/changelog changelog_head LIMIT_COUNT 1)
if(NOT changelog_head MATCHES "^dblock \\(${PROJECT_VERSION}-${DBLOCK_DEB_REVISION}\\) ")
  message(FATAL_ERROR "src/package/deb/changelog must begin with an entry for ${PROJECT_VERSION}-${DBLOCK_DEB_REVISION}")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${DBLOCK_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run a shell job under a lock that a whole fleet respects")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "dblock runs a command while it holds a lock that is kept in a MySQL or
MariaDB database, or in a file of this host. The lock is granted for a
limited time and renewed while the command runs; when it can no longer be
renewed, the command and all that it has started are stopped before
another host may take the lock over.
.
The package brings a systemd timer that clears up expired leases and idle
rows. It is not enabled.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${package_dir}/deb/arrange.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${DBLOCK_DEB_REVISION})
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# libmariadb is loaded by name when the URL asks for it, so no tool finds this dependency. A self-contained program loads
# plugins of that package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libmariadb3)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "default-mysql-server")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${package_dir}/deb/postinst ${package_dir}/deb/prerm ${package_dir}/deb/postrm
                                       ${package_dir}/deb/conffiles)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
