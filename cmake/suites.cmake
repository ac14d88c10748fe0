# SPDX-License-Identifier: Apache-2.0
# The suites of one GoogleTest program as tests, read by ctest as it starts: see hasten_test in
# cmake/layer.cmake, which sets `program`, `prefix`, `timeout` and `except`, a regular expression of
# the tests to leave out, or nothing.
#
# A test is a suite, and of a suite with parameters (it has a slash) one of its functions with all of
# them: most cases take less than starting the program, which sanitizers make slow.
if(NOT EXISTS ${program})
  add_test(${prefix}NOT_BUILT ${program})
  return()
endif()
execute_process(COMMAND ${program} --gtest_list_tests
                OUTPUT_VARIABLE listing RESULT_VARIABLE status TIMEOUT 60)
if(NOT status EQUAL 0)
  add_test(${prefix}NOT_LISTED ${program} --gtest_list_tests)
  return()
endif()
# What follows a name is a comment on its parameters, which may hold what cuts a list.
string(REGEX REPLACE "[ \t]*#[^\n]*" "" listing "${listing}")
string(REPLACE "\n" ";" lines "${listing}")
set(names)
foreach(line ${lines})
  if(line MATCHES "^([^ ]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
    set(name ${suite})
  elseif(line MATCHES "^  ([^/]+)")
    if(suite MATCHES "/")
      string(REGEX REPLACE "^  ([^/]+).*" "${suite}.\\1" name ${line})
    endif()
    list(APPEND names ${name})
  endif()
endforeach()
list(REMOVE_DUPLICATES names)
foreach(name ${names})
  if(except AND "${prefix}${name}" MATCHES "${except}")
    continue()
  endif()
  set(filter ${name}.*)
  if(name MATCHES "/")
    set(filter ${name}:${name}/*)  # parameters that are types stand before the function, others behind
  endif()
  add_test(${prefix}${name} ${program} --gtest_filter=${filter})
  set_tests_properties(${prefix}${name} PROPERTIES TIMEOUT ${timeout})
endforeach()
