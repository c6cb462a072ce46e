# Install tree and Debian packages: the program, the two libraries with their headers, and their CMake package.
include(CMakePackageConfigHelpers)
install(
  TARGETS ddprun_rendezvous ddprun_worker_runtime
  EXPORT ddprunTargets
  ARCHIVE COMPONENT development
  FILE_SET HEADERS COMPONENT development)
install(
  EXPORT ddprunTargets
  NAMESPACE ddprun::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun
  COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/docs/ddprun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
# The names under which ddprun stands in for PyTorch's launchers, in a folder that users put in front of PATH: a torchrun
# in bin would collide with PyTorch's own.
file(RELATIVE_PATH program_from_links ${CMAKE_INSTALL_FULL_LIBEXECDIR}/ddprun ${CMAKE_INSTALL_FULL_BINDIR}/ddprun)
foreach(name IN ITEMS torchrun torch.distributed.launch)
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

# Debian packages: `cpack -G DEB` in a build folder makes ddprun, libddprun-dev and one for each module. The trainer is in neither: its name
# is too general for a system's PATH, and the launcher should not bring in OpenBLAS.
get_property(modules GLOBAL PROPERTY DDPRUN_MODULES)
set(packages program:ddprun development:libddprun-dev)
foreach(name IN LISTS modules)
  list(APPEND packages ${name}:ddprun-${name})
endforeach()
foreach(package IN LISTS packages)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(
    FILES ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    RENAME copyright
    COMPONENT ${component})
endforeach()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_CONTACT "The ddprun maintainers <maintainers@ddprun.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development ${modules})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Empty, or it would stand before each package's own first line.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "Launcher and elastic agent for distributed training
Starts the workers of a training program as torchrun does, with the same options, environment
and store protocol, and restarts them when one of them fails.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ddprun)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "Worker runtime for distributed training in C++
Headers, static libraries and a CMake package: store client, collectives, DDP gradient reducer,
sampler and checkpoints.")
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
