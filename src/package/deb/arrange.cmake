# cpack runs this between installing and packing: what `cmake --install` made becomes what Debian asks for.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(doc ${root}/usr/share/doc/dblock)

# gzip as Debian wants it: as small as can be, without name and time.
function(compress)
  if(ARGN)
    execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()

file(MAKE_DIRECTORY ${root}/etc)
file(RENAME ${doc}/examples/dblock.conf ${root}/etc/dblock.conf)
file(REMOVE_RECURSE ${doc}/examples)
file(REMOVE ${doc}/LICENSE)
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${doc}/copyright COPYONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog ${doc}/changelog.Debian COPYONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lintian-overrides ${root}/usr/share/lintian/overrides/dblock COPYONLY)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
file(GLOB man_pages ${root}/usr/share/man/man*/*.[1-9])
compress(${doc}/changelog ${doc}/changelog.Debian ${man_pages})

if(EXISTS ${root}/usr/share/zsh/site-functions)
  file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)
endif()

# Whatever the umask was.
file(GLOB_RECURSE paths LIST_DIRECTORIES true ${root}/*)
foreach(path IN LISTS paths)
  if(IS_DIRECTORY ${path} OR path STREQUAL "${root}/usr/bin/dblock")
    file(CHMOD ${path} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  elseif(NOT IS_SYMLINK ${path})
    file(CHMOD ${path} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endif()
endforeach()
