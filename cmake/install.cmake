# SPDX-License-Identifier: Apache-2.0
# The library that others link: libhasten of every layer below the server, its headers, and the
# package files that find_package(hasten) reads. Shared, so that its users need nothing but the
# standard library.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY HASTEN_LAYERS)
list(REMOVE_ITEM layers hasten_server hasten_cli)
add_library(hasten_library SHARED)
foreach(layer ${layers})
  target_sources(hasten_library PRIVATE $<TARGET_OBJECTS:${layer}>)
  get_target_property(links ${layer} LINK_LIBRARIES)
  list(FILTER links EXCLUDE REGEX "^hasten_")
  target_link_libraries(hasten_library PRIVATE ${links})
endforeach()
target_include_directories(hasten_library INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(hasten_library INTERFACE cxx_std_20)
set_target_properties(hasten_library PROPERTIES OUTPUT_NAME hasten EXPORT_NAME hasten LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

install(TARGETS hasten_library EXPORT hasten)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/hasten DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hasten)
install(EXPORT hasten NAMESPACE hasten:: FILE hastenConfig.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/hastenConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hastenConfigVersion.cmake DESTINATION ${package_dir})
