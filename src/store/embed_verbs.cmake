# Writes OUTPUT, a C++ source that defines STORE::sql(Verb) from the files FILES (a ;-list) of sql/verbs. Each holds one
# statement for people: comments and needless white space go, and {name} becomes the text of that name in terms.sql.
# Run with: cmake -DFILES=… -DOUTPUT=… -DSTORE=… -P embed_verbs.cmake

cmake_minimum_required(VERSION 3.25)

# A semicolon would make a list of the text.
set(semicolon "<semicolon>")

function(condense text result)
  string(REGEX REPLACE "--[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[ \t\n]+" " " text "${text}")
  string(REGEX REPLACE " ?([,=<>+]) ?" "\\1" text "${text}")
  string(REPLACE "( " "(" text "${text}")
  string(REPLACE " )" ")" text "${text}")
  string(STRIP "${text}" text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Terms may name terms that come before them.
macro(expand text file)
  while("${${text}}" MATCHES "{([a-z_]*)}")
    if(NOT DEFINED term_${CMAKE_MATCH_1})
      message(FATAL_ERROR "${file}: terms.sql has no {${CMAKE_MATCH_1}}, or only further down")
    endif()
    set(term ${CMAKE_MATCH_1})
    list(APPEND used ${term})
    string(REPLACE "{${term}}" "${term_${term}}" ${text} "${${text}}")
  endwhile()
endmacro()

function(read_text file result)
  file(READ "${file}" text)
  string(REPLACE ";" "${semicolon}" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

list(SORT FILES)
set(terms "")
set(used "")
list(GET FILES 0 first)
get_filename_component(folder "${first}" DIRECTORY)
read_text("${folder}/terms.sql" rest)
while("${rest}" MATCHES "-- {([a-z_]+)}")
  set(name ${CMAKE_MATCH_1})
  string(FIND "${rest}" "-- {${name}}" at)
  string(LENGTH "-- {${name}}" length)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${rest}" ${at} -1 rest)
  # What stands behind the name is a comment.
  string(FIND "${rest}" "\n-- {" end)
  string(SUBSTRING "${rest}" 0 ${end} body)
  condense("--${body}" body)
  expand(body "terms.sql, {${name}}")
  if(DEFINED term_${name} OR body STREQUAL "")
    message(FATAL_ERROR "terms.sql: {${name}} is there twice, or empty")
  endif()
  set(term_${name} "${body}")
  list(APPEND terms ${name})
endwhile()

set(cases "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  if(name STREQUAL "terms")
    continue()
  endif()
  read_text("${file}" sql)
  condense("${sql}" sql)
  expand(sql "${name}.sql")
  string(REPLACE "${semicolon}" ";" sql "${sql}")
  string(APPEND cases "    case Verb::${name}:\n      return checked(R\"dblock_sql(${sql})dblock_sql\");\n")
endforeach()
foreach(name IN LISTS terms)
  if(NOT name IN_LIST used)
    message(FATAL_ERROR "terms.sql: {${name}} is used nowhere")
  endif()
endforeach()
file(WRITE "${OUTPUT}.new" "// Generated from sql/verbs by embed_verbs.cmake; do not edit.
#include \"store/${STORE}/sql.hpp\"

namespace dblock::store::${STORE} {

std::string_view sql(Verb verb) {
  switch (verb) {
${cases}    default:
      return {};
  }
}

}  // namespace dblock::store::${STORE}
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
