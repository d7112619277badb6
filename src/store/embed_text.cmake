# What embed_verbs.cmake and embed_procedures.cmake share: reads SQL that is written for people, and puts the terms of a
# terms.sql in place of their names.

# A semicolon would make a list of the text.
set(semicolon "<semicolon>")
set(terms "")
set(used "")

function(read_text file result)
  file(READ "${file}" text)
  string(REPLACE ";" "${semicolon}" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Without comments, on one line.
function(join_lines text result)
  string(REGEX REPLACE "--[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[ \t\n]+" " " text "${text}")
  string(STRIP "${text}" text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Without needless white space too. Not for text with literals for people.
function(condense text result)
  join_lines("${text}" text)
  string(REGEX REPLACE " ?([,=<>+]) ?" "\\1" text "${text}")
  string(REPLACE "( " "(" text "${text}")
  string(REPLACE " )" ")" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

macro(expand text file)
  while("${${text}}" MATCHES "{([a-z_]+)}")
    if(NOT DEFINED term_${CMAKE_MATCH_1})
      message(FATAL_ERROR "${file}: terms.sql has no {${CMAKE_MATCH_1}}")
    endif()
    set(term ${CMAKE_MATCH_1})
    list(APPEND used ${term})
    string(REPLACE "{${term}}" "${term_${term}}" ${text} "${${text}}")
  endwhile()
endmacro()

# Defines the terms of a file for expand(), and appends their names to `terms`. `shorten`: condense or join_lines.
# `before`: a function that changes a term's text before that. Terms may name any others, but never themselves.
macro(read_terms file shorten before)
  read_text("${file}" rest)
  while("${rest}" MATCHES "-- {([a-z_]+)}")
    set(name ${CMAKE_MATCH_1})
    string(FIND "${rest}" "-- {${name}}" at)
    string(LENGTH "-- {${name}}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    # What stands behind the name is a comment.
    string(FIND "${rest}" "\n-- {" end)
    string(SUBSTRING "${rest}" 0 ${end} body)
    cmake_language(CALL ${shorten} "--${body}" body)
    cmake_language(CALL ${before} "${body}" body)
    if(DEFINED term_${name} OR body STREQUAL "")
      message(FATAL_ERROR "terms.sql: {${name}} is there twice, or empty")
    endif()
    set(term_${name} "${body}")
    list(APPEND terms ${name})
  endwhile()
endmacro()

function(as_is text result)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(all_must_be_used)
  foreach(name IN LISTS terms)
    if(NOT name IN_LIST used)
      message(FATAL_ERROR "terms.sql: {${name}} is used nowhere")
    endif()
  endforeach()
endfunction()
