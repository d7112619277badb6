# Writes OUTPUT, a C++ source that defines STORE::procedures() from the files FILES (a ;-list) of sql/procedures. In them
# {name} becomes that term of sql/procedures/terms.sql or of one for the verbs, {verb name} the statement of that name in
# sql/verbs/STORE, and in all of these `:name` becomes the procedure's variable v_name. Of what a statement carries only if it
# is asked for, procedures give the kind of the lease, and nothing else.
# Run with: cmake -DFILES=… -DOUTPUT=… -DSTORE=… -P embed_procedures.cmake

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/embed_text.cmake)
list(SORT FILES)
list(GET FILES 0 first)
get_filename_component(folder "${first}" DIRECTORY)
set(verbs "${folder}/../verbs/${STORE}")

function(insert_verbs text result)
  while("${text}" MATCHES "{verb ([a-z_]+)}")
    set(verb ${CMAKE_MATCH_1})
    read_text("${verbs}/${verb}.sql" sql)
    condense("${sql}" sql)
    string(REPLACE "{verb ${verb}}" "${sql}" text "${text}")
  endwhile()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

read_terms("${verbs}/../terms.sql" condense as_is)
read_terms("${verbs}/terms.sql" condense as_is)
set(terms "") # embed_verbs.cmake sees to it that those are used
read_terms("${folder}/terms.sql" join_lines insert_verbs)

set(entries "")
set(count 0)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  if(name STREQUAL "terms")
    continue()
  endif()
  math(EXPR count "${count} + 1")
  read_text("${file}" sql)
  insert_verbs("${sql}" sql)
  list(APPEND used version)
  expand(sql "${name}.sql")
  string(REGEX REPLACE "\\[of_kind\\|([^]]*)\\]" "\\1" sql "${sql}")
  string(REGEX REPLACE "\\[[a-z_]+\\|[^]]*\\]" "" sql "${sql}")
  string(REGEX REPLACE ":([a-z_]+)" "v_\\1" sql "${sql}")
  string(REPLACE "${semicolon}" ";" sql "${sql}")
  string(APPEND entries "    Procedure{\"${name}\", R\"dblock_sql(${sql})dblock_sql\"},\n")
endforeach()
all_must_be_used()
file(WRITE "${OUTPUT}.new" "// Generated from sql/procedures by embed_procedures.cmake; do not edit.
#include \"store/${STORE}/sql.hpp\"

#include <array>

namespace dblock::store::${STORE} {
namespace {

constexpr std::array<Procedure, ${count}> k_procedures{
${entries}};

}  // namespace

std::span<const Procedure> procedures() { return k_procedures; }
unsigned procedures_version() { return ${term_version}; }

}  // namespace dblock::store::${STORE}
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
