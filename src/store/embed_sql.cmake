# Writes OUTPUT, a C++ source that defines STORE::migrations() from the files FILES (a ;-list, sorted here) as raw
# string literals. Run with: cmake -DFILES=… -DOUTPUT=… -DSTORE=… -P embed_sql.cmake
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
  string(STRIP "${sql}" sql)
  string(APPEND entries "    Migration{${version}, \"${name}\", R\"dblock_sql(${sql})dblock_sql\"},\n")
endforeach()
math(EXPR count "${expected} - 1")
file(WRITE "${OUTPUT}.new" "// Generated from sql/ by embed_sql.cmake; do not edit.
#include \"store/${STORE}/migrations.hpp\"

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
