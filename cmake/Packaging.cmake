# Install tree and Debian packages: the program, the two libraries with their headers, and their CMake package.
include(CMakePackageConfigHelpers)
install(
  TARGETS ddprun_rendezvous ddprun_worker_runtime
  EXPORT ddprunTargets
  ARCHIVE COMPONENT development
  FILE_SET HEADERS COMPONENT development)
foreach(target IN ITEMS ddprun_rendezvous ddprun_worker_runtime)
  install(
    CODE "set(archive \"${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:${target}>\")
cmake_path(ABSOLUTE_PATH archive BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
execute_process(
  COMMAND \"${CMAKE_COMMAND}\" -D \"NM=${CMAKE_NM}\" -D \"OBJCOPY=${CMAKE_OBJCOPY}\" -D \"ARCHIVE=\$ENV{DESTDIR}\${archive}\"
          -P \"${PROJECT_SOURCE_DIR}/cmake/rename_boost_symbols.cmake\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT development)
endforeach()
install(
  EXPORT ddprunTargets
  NAMESPACE ddprun::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun
  COMPONENT development)
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
# An absolute path replaces the prefix.
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
  cmake_path(APPEND pkgconfig_${folder} "\${prefix}" "${CMAKE_INSTALL_${folder}}")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/ddprun.pc.in ${PROJECT_BINARY_DIR}/generated/ddprun.pc @ONLY)
install(
  FILES ${PROJECT_BINARY_DIR}/generated/ddprun.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

# ddprun_compressed(SOURCE NAME): generated/NAME is SOURCE, compressed without name and time, so that packages of the
# same sources are equal.
find_program(GZIP gzip REQUIRED)
function(ddprun_compressed source name)
  set(result ${PROJECT_BINARY_DIR}/generated/${name})
  add_custom_command(
    OUTPUT ${result}
    COMMAND ${GZIP} -9 -n < ${source} > ${result}
    DEPENDS ${source}
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY DDPRUN_COMPRESSED ${result})
endfunction()
ddprun_compressed(${PROJECT_SOURCE_DIR}/docs/ddprun.1 ddprun.1.gz)
install(FILES ${PROJECT_BINARY_DIR}/generated/ddprun.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
# The files that the documentation names.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
# The names under which ddprun stands in for PyTorch's launchers, in a folder that users put in front of PATH: a torchrun
# in bin would collide with PyTorch's own.
file(RELATIVE_PATH program_from_links ${CMAKE_INSTALL_FULL_LIBEXECDIR}/ddprun ${CMAKE_INSTALL_FULL_BINDIR}/ddprun)
foreach(name IN ITEMS torchrun torch.distributed.launch)
  if(SKBUILD)
    install(
      PROGRAMS $<TARGET_FILE:ddprun_named_link>
      DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddprun
      RENAME ${name}
      COMPONENT program)
    continue()
  endif()
  file(CREATE_LINK ${program_from_links} ${PROJECT_BINARY_DIR}/generated/${name} SYMBOLIC)
  install(
    FILES ${PROJECT_BINARY_DIR}/generated/${name}
    DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddprun
    COMPONENT program)
endforeach()
install(
  FILES ${PROJECT_SOURCE_DIR}/docs/completions/ddprun.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME ddprun
  COMPONENT program)
install(
  FILES ${PROJECT_SOURCE_DIR}/docs/completions/_ddprun
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  COMPONENT program)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ddprunConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/ddprunConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/generated/ddprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/generated/ddprunConfig.cmake ${PROJECT_BINARY_DIR}/generated/ddprunConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun
  COMPONENT development)

# Debian packages: `cpack -G DEB` in a build folder makes ddprun, libddprun-dev and one for each module. The trainer is in
# neither: its name is too general for a system's PATH, and the launcher should not bring in OpenBLAS.
get_property(modules GLOBAL PROPERTY DDPRUN_MODULES)
set(packages program:ddprun development:libddprun-dev)
ddprun_compressed(${PROJECT_SOURCE_DIR}/CHANGELOG.md changelog.gz)
foreach(name IN LISTS modules)
  list(APPEND packages ${name}:ddprun-${name})
endforeach()
foreach(package IN LISTS packages)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(
    FILES ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${documents}
    RENAME copyright
    COMPONENT ${component})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/changelog.Debian.in ${PROJECT_BINARY_DIR}/generated/${name}.changelog @ONLY)
  ddprun_compressed(${PROJECT_BINARY_DIR}/generated/${name}.changelog ${name}.changelog.gz)
  install(
    FILES ${PROJECT_BINARY_DIR}/generated/changelog.gz
    DESTINATION ${documents}
    COMPONENT ${component})
  install(
    FILES ${PROJECT_BINARY_DIR}/generated/${name}.changelog.gz
    DESTINATION ${documents}
    RENAME changelog.Debian.gz
    COMPONENT ${component})
endforeach()
# Projects to copy, which tests build as they are.
install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/tests/scenario/consumer ${PROJECT_SOURCE_DIR}/tests/scenario/libtorch_consumer
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libddprun-dev/examples
  COMPONENT development)
get_property(compressed GLOBAL PROPERTY DDPRUN_COMPRESSED)
add_custom_target(ddprun_compressed_documents ALL DEPENDS ${compressed})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_CONTACT "The ddprun maintainers <maintainers@ddprun.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_COMPONENTS_ALL program development ${modules})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Empty, or it would stand before each package's own first line.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "Launcher and elastic agent for distributed training
Starts the workers of a training program as torchrun does, with the same
options, environment and store protocol, and restarts them when one of them
fails.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ddprun)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "Worker runtime for distributed training in C++
Headers, static libraries and a CMake package: store client, collectives, DDP
gradient reducer, sampler and checkpoints.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libddprun-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# What the CMake package looks for; the static libraries have no dependencies that could be computed.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS ddprun)
foreach(name IN LISTS modules)
  string(TOUPPER ${name} upper)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "Backend ${name} of ddprun's worker runtime
A module that workers load when they ask for collectives by it.")
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ddprun-${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
endforeach()
include(CPack)

configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
if(DOXYGEN)
  add_custom_target(api_reference COMMAND ${DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile VERBATIM)
endif()
