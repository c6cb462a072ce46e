# DDPRUN_GLIBC: with DDPRUN_STATIC, programs need this version of glibc or a newer one, whatever version this machine has. GCC
# compiles; zig links, because it knows the symbols of each version of glibc, and strips the programs. A few functions that the code
# or libstdc++.a calls are newer; rendezvous/base/old_glibc.cpp defines these.
set(DDPRUN_GLIBC "" CACHE STRING "Oldest glibc on which static programs run, such as 2.27; empty: that of this machine")
set(DDPRUN_ZIG "" CACHE STRING "With DDPRUN_GLIBC: the command zig; empty: the Python package ziglang")
if(DDPRUN_GLIBC)
  if(NOT DDPRUN_STATIC)
    message(FATAL_ERROR "DDPRUN_GLIBC needs DDPRUN_STATIC: shared libraries of this machine need its own glibc")
  endif()
  if(BUILD_TESTING)
    message(FATAL_ERROR "DDPRUN_GLIBC does not support the tests: -D BUILD_TESTING=OFF builds without them")
  endif()
  foreach(library IN ITEMS libstdc++.a libgcc_s.so.1)
    execute_process(
      COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
      OUTPUT_VARIABLE file
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND libraries_of_gcc ${file})
  endforeach()
  list(JOIN libraries_of_gcc " " libraries_of_gcc)
  if(NOT DDPRUN_ZIG)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    set(DDPRUN_ZIG "${Python3_EXECUTABLE} -m ziglang")
  endif()
  # The machine's libgcc_s refers to its newer glibc.
  set(link "${DDPRUN_ZIG} cc -target ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.${DDPRUN_GLIBC} -s -Wl,--allow-shlib-undefined")
  set(objects "<LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES> ${libraries_of_gcc} -lpthread -ldl -lm")
  set(CMAKE_CXX_LINK_EXECUTABLE "${link} <CMAKE_CXX_LINK_FLAGS> ${objects}")
  set(CMAKE_CXX_CREATE_SHARED_MODULE "${link} -shared ${objects}")
endif()
