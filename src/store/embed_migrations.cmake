# Writes OUTPUT, a C++ source that defines STORE::migrations() from the files FILES (a ;-list, sorted here) as raw
# string literals. A file begins with the line `-- Serves: N`: the oldest dblock, by the version that it knows, that goes on
# working with this version. Run with: cmake -DFILES=… -DOUTPUT=… -DSTORE=… -P embed_migrations.cmake
list(SORT FILES)
set(entries "")
set(expected 1)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  if(NOT name MATCHES "^([0-9][0-9][0-9][0-9])_[a-z0-9_]+\\.sql$")
    message(FATAL_ERROR "migration ${name}: the name must look like 0001_what_it_does.sql")
  endif()
  math(EXPR version "1${CMAKE_MATCH_1} - 10000")
  if(NOT version EQUAL expected)
    message(FATAL_ERROR "migration ${name}: versions count 1, 2, 3, … without holes; ${expected} is next")
  endif()
  math(EXPR expected "${expected} + 1")
  file(READ "${file}" sql)
  if(NOT sql MATCHES "^-- Serves: ([0-9]+)\n" OR CMAKE_MATCH_1 GREATER version)
    message(FATAL_ERROR "migration ${name}: its first line must be `-- Serves: N`, at most ${version}")
  endif()
  set(serves ${CMAKE_MATCH_1})
  string(FIND "${sql}" "\n" end_of_line)
  string(SUBSTRING "${sql}" ${end_of_line} -1 sql)
  string(STRIP "${sql}" sql)
  string(APPEND entries "    Migration{${version}, ${serves}, \"${name}\", R\"dblock_sql(${sql})dblock_sql\"},\n")
endforeach()
math(EXPR count "${expected} - 1")
file(WRITE "${OUTPUT}.new" "// Generated from sql/ by embed_migrations.cmake; do not edit.
#include \"store/${STORE}/sql.hpp\"

#include <array>

namespace dblock::store::${STORE} {
namespace {

constexpr std::array<Migration, ${count}> k_migrations{
${entries}};

}  // namespace

std::span<const Migration> migrations() { return k_migrations; }

}  // namespace dblock::store::${STORE}
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
