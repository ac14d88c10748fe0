# SPDX-License-Identifier: Apache-2.0
# add_layer(<folder> [RAW_MEMORY] DEPS <layers> LINK <third-party targets>): folder = layer = target =
# namespace. RAW_MEMORY: it makes objects out of bytes, so UBSan checks its pointers, and those of its
# tests: of an inline function that both have, the linker keeps the tests'.
#
# Makes the static library hasten_<folder> of every .cpp below the folder (nested layers left out),
# the test program <folder>_test of every *_test.cpp, and one fuzz target per *_fuzz.cpp.
function(add_layer folder)
  cmake_parse_arguments(LAYER "RAW_MEMORY" "" "DEPS;LINK" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  set(root ${CMAKE_SOURCE_DIR}/src/${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*.cpp)
  file(GLOB_RECURSE nested CONFIGURE_DEPENDS ${root}/*/CMakeLists.txt)
  foreach(inner ${nested})
    cmake_path(GET inner PARENT_PATH inner_root)
    foreach(source ${sources})
      cmake_path(IS_PREFIX inner_root ${source} is_nested)
      if(is_nested)
        list(REMOVE_ITEM sources ${source})
      endif()
    endforeach()
  endforeach()
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cpp$")

  if(sources)
    add_library(hasten_${name} STATIC ${sources})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY HASTEN_LAYERS hasten_${name})
    if(NOT LAYER_RAW_MEMORY)
      hasten_trust_pointers(hasten_${name})
    endif()
    if(HASTEN_TIDY)
      # -Wno-error: what clang-tidy is to refuse is said in .clang-tidy, not by the compiler's flags.
      # In a unity build it sees a file of others, each included.
      set_target_properties(hasten_${name} PROPERTIES
                            CXX_CLANG_TIDY "${CLANG_TIDY};--quiet;--extra-arg=-Wno-error"
                            UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
    endif()
  else()
    add_library(hasten_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(hasten_${name} ${scope} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  foreach(dep ${LAYER_DEPS})
    string(REPLACE "/" "_" dep ${dep})
    target_link_libraries(hasten_${name} ${scope} hasten_${dep})
  endforeach()
  target_link_libraries(hasten_${name} ${scope} ${LAYER_LINK} Threads::Threads)

  if(tests AND HASTEN_TESTS AND NOT HASTEN_FUZZ)
    if(LAYER_RAW_MEMORY)
      set(raw_memory RAW_MEMORY)
    endif()
    hasten_test(${name}_test ${raw_memory} SOURCES ${tests} LINK hasten_${name})
  endif()
  foreach(source ${fuzzers})
    get_filename_component(fuzzer ${source} NAME_WE)
    hasten_fuzzer(${fuzzer} SOURCE ${source} LINK hasten_${name})
  endforeach()
endfunction()

# hasten_fuzzer(<name> SOURCE … LINK …): a libFuzzer program with HASTEN_FUZZ. In tests under ASan, the
# same inputs each time: what tests/fuzz/replay.cpp makes of tests/fuzz/seeds/<name>.
function(hasten_fuzzer name)
  cmake_parse_arguments(FUZZER "" "SOURCE;LINK" "" ${ARGN})
  if(HASTEN_FUZZ)
    add_executable(${name} ${FUZZER_SOURCE})
    target_link_libraries(${name} PRIVATE ${FUZZER_LINK})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  elseif(HASTEN_TESTS AND HASTEN_SANITIZE MATCHES address)
    add_executable(${name} ${FUZZER_SOURCE})
    target_link_libraries(${name} PRIVATE hasten_fuzz_replay ${FUZZER_LINK})
    add_test(NAME ${HASTEN_TEST_PREFIX}${name} COMMAND ${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/seeds/${name})
    set_tests_properties(${HASTEN_TEST_PREFIX}${name} PROPERTIES TIMEOUT 120)
  endif()
endfunction()

# hasten_test(<name> [RAW_MEMORY] SOURCES … LINK …): a GoogleTest program whose suites are ctest tests.
# RAW_MEMORY: as that of add_layer. Real inputs with known answers are looked for in HASTEN_SHARED
# (default: the folder shared/ beside the checkout).
function(hasten_test name)
  cmake_parse_arguments(TEST "RAW_MEMORY" "" "SOURCES;LINK" ${ARGN})
  if(HASTEN_TEST_ONLY AND NOT name MATCHES "${HASTEN_TEST_ONLY}")
    return()
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/include)
  # Headers are most of what a test compiles: sixteen files as one in every build, see docs/testing.md.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  # What is tested is optimised in its own library; a test's own code is faster compiled than run.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(NOT TEST_RAW_MEMORY)
    hasten_trust_pointers(${name})
  endif()
  target_compile_definitions(${name} PRIVATE HASTEN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  file(GENERATE OUTPUT ${suites} CONTENT "set(program [[$<TARGET_FILE:${name}>]])
set(prefix [[${HASTEN_TEST_PREFIX}${name}.]])
set(except [[${HASTEN_TEST_EXCEPT}]])
set(timeout 1800)  # seconds: a suite, under sanitizers, on a busy machine
include([[${CMAKE_SOURCE_DIR}/cmake/suites.cmake]])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
endfunction()
