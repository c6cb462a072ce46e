# Installs the build into a temporary folder, builds the LibTorch program of docs/libtorch.md
# against it with CMake alone, and runs it under the installed launcher; also the single-process
# program that it is based on. It is part of a project that has found the package before in another
# part.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The LibTorch of the build. Not by Torch_DIR: packages that it requires would come from another
# LibTorch if there is one.
get_filename_component(libtorch ${TORCH}/../../.. ABSOLUTE)
set(ENV{CMAKE_PREFIX_PATH} ${libtorch})

set(folder ${BUILD_FOLDER}/libtorch_install_test)
file(REMOVE_RECURSE ${folder})
run(${CMAKE_COMMAND} --install ${BUILD_FOLDER} --prefix ${folder}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCES}/libtorch_parts -B ${folder}/build -D CMAKE_PREFIX_PATH=${folder}/prefix
    -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0 -D CMAKE_CXX_COMPILER=${COMPILER}
    -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${folder}/build)
if(output MATCHES "warning: ")
  message(FATAL_ERROR "warnings:\n${output}")
endif()
run(${folder}/prefix/bin/ddprun --nproc_per_node=2 ${folder}/build/consumer/together)
foreach(rank IN ITEMS 0 1)
  if(NOT output MATCHES "\\[default${rank}\\]:epoch 2: loss 0\\.")
    message(FATAL_ERROR "rank ${rank} has not learnt:\n${output}")
  endif()
endforeach()
run(${folder}/build/others)
if(NOT output MATCHES "^difference -?0\\.00000[0-9]\n$")
  message(FATAL_ERROR "threads, stages and a checkpoint do not go together:\n${output}")
endif()
# Without its requirements the component is missing as a whole.
execute_process(
  COMMAND ${CMAKE_COMMAND} -G Ninja -S ${SOURCES}/libtorch_consumer -B ${folder}/without -D
          CMAKE_PREFIX_PATH=${folder}/prefix -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_DISABLE_FIND_PACKAGE_Torch=ON
  RESULT_VARIABLE result
  ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "LibTorch was not found")
  message(FATAL_ERROR "a missing LibTorch is not told of:\n${output}")
endif()
# An unknown component is named.
file(WRITE ${folder}/misspelt/CMakeLists.txt
     "cmake_minimum_required(VERSION 3.25)\nproject(misspelt LANGUAGES CXX)\n"
     "find_package(ddprun REQUIRED COMPONENTS LibTorch)\n")
execute_process(
  COMMAND ${CMAKE_COMMAND} -G Ninja -S ${folder}/misspelt -B ${folder}/misspelt/build -D
          CMAKE_PREFIX_PATH=${folder}/prefix -D CMAKE_CXX_COMPILER=${COMPILER}
  RESULT_VARIABLE result
  ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "no component \"LibTorch\", only *\n? *\"libtorch\"")
  message(FATAL_ERROR "a component that does not exist is not told of:\n${output}")
endif()
file(REMOVE_RECURSE ${folder})
