# Writes OUTPUT, a C++ source that defines STORE::sql(Verb) and, for servers, STORE::name_of(Verb), from the files FILES (a
# ;-list) of sql/verbs. Each holds one statement for people: comments and needless white space go, and {name} becomes the
# text of that name in a terms.sql.
# Run with: cmake -DFILES=… -DOUTPUT=… -DSTORE=… -P embed_verbs.cmake

cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/embed_text.cmake)
list(SORT FILES)
list(GET FILES 0 first)
get_filename_component(folder "${first}" DIRECTORY)
read_terms("${folder}/../terms.sql" condense as_is)
read_terms("${folder}/terms.sql" condense as_is)

set(cases "")
set(names "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  if(name STREQUAL "terms")
    continue()
  endif()
  read_text("${file}" sql)
  condense("${sql}" sql)
  expand(sql "${name}.sql")
  string(REPLACE "${semicolon}" ";" sql "${sql}")
  string(APPEND cases "    case Verb::${name}:\n      return ${STORE}::checked(Verb::${name}, R\"dblock_sql(${sql})dblock_sql\");\n")
  string(APPEND names "    case Verb::${name}:\n      return \"${name}\";\n")
endforeach()
all_must_be_used()
set(name_of "")
if(STORE STREQUAL mariadb)
  set(name_of "
std::string_view name_of(Verb verb) {
  switch (verb) {
${names}    default:
      return {};
  }
}
")
endif()
file(WRITE "${OUTPUT}.new" "// Generated from sql/verbs by embed_verbs.cmake; do not edit.
#include \"store/${STORE}/sql.hpp\"

namespace dblock::store::${STORE} {

std::string_view sql(Verb verb) {
  switch (verb) {
${cases}    default:
      return {};
  }
}
${name_of}

}  // namespace dblock::store::${STORE}
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
