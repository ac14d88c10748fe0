# SPDX-License-Identifier: Apache-2.0
# Compiler settings common to every target: standard, warnings, sanitizers, cache and linker.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# No -ffast-math and no contraction outside kernels that ask for FMA by name: results must not
# depend on which inlining the compiler chose.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                    -Wnon-virtual-dtor -Woverloaded-virtual -ffp-contract=off
                    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # PR 105651: false ones in std::string
# To GCC, the unnamed namespace of a .cpp that a unity file includes is one in a header. Those that are
# in one are refused where files are compiled one by one.
if(CMAKE_UNITY_BUILD)
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
else()
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Werror=subobject-linkage>)
endif()
if(HASTEN_WERROR)
  add_compile_options(-Werror)
endif()

# Dev: sanitizers need symbols. At -O1 GCC takes twice as long for what they add, and few tests are
# faster.
set(CMAKE_CXX_FLAGS_DEV "-Og -g1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
if(HASTEN_SANITIZE)
  add_compile_options(-fsanitize=${HASTEN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HASTEN_SANITIZE})
endif()
# hasten_trust_pointers(<target>): leaves out UBSan's checks of each use of a pointer or reference (it is
# not null, it is aligned, it leads to an object of its type), where ASan is there to find accesses
# through null. They are a quarter to a third of the time to compile what is mostly templates of
# others. For what makes no objects out of bytes. The preset fuzz keeps them.
function(hasten_trust_pointers target)
  if(HASTEN_SANITIZE MATCHES "address" AND HASTEN_SANITIZE MATCHES "undefined" AND NOT HASTEN_FUZZ)
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment,vptr)
  endif()
endfunction()
# hasten_optimise_sanitized(<target>): -O2 under sanitizers, for what tests spend their time in beside
# what they test. It takes GCC some seconds more than -Og.
function(hasten_optimise_sanitized target)
  if(CMAKE_BUILD_TYPE STREQUAL Dev AND HASTEN_SANITIZE)
    target_compile_options(${target} PRIVATE -O2)
  endif()
endfunction()
if(HASTEN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

find_program(HASTEN_CCACHE ccache)
if(HASTEN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HASTEN_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${HASTEN_CCACHE})
endif()
find_program(HASTEN_MOLD mold)
if(HASTEN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
