# Install tree: the program, the two libraries with their headers, and the CMake package of the same name.
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
