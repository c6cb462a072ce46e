# The language CUDA, for our own kernels; needs no GPU. DDPRUN_HAS_CUDA says whether there is a compiler for it.
set(DDPRUN_CUDA AUTO CACHE STRING "What is made for GPUs: AUTO (if the CUDA toolkit with nvcc is found), ON or OFF")
set_property(CACHE DDPRUN_CUDA PROPERTY STRINGS AUTO ON OFF)

set(found OFF)
if(NOT DDPRUN_CUDA STREQUAL "OFF")
  # 12.0 is the first whose compiler knows C++20.
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static AND CUDAToolkit_NVCC_EXECUTABLE)
    set(found ON)
  elseif(DDPRUN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DDPRUN_CUDA is ON, and the CUDA toolkit (12.0 or newer) with nvcc was not found "
                        "(CUDAToolkit_ROOT names its folder)")
  endif()
endif()
set(DDPRUN_HAS_CUDA ${found} CACHE INTERNAL "kernels are built")
if(NOT DDPRUN_HAS_CUDA)
  return()
endif()

# One, so that builds for tests are quick; preset cuda has those that programs are made for.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)

# What CMake 3.25 does not know of this compiler.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)

# ddprun_kernels(NAME SOURCES...): kernels and their launches, as objects for $<TARGET_OBJECTS:NAME>. A library would make
# nvcc the linker of all that uses it.
function(ddprun_kernels name)
  add_library(${name} OBJECT ${ARGN})
  target_compile_options(
    ${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings;-Xcompiler=-Wall,-Wextra>")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/rendezvous/include
                                             ${PROJECT_SOURCE_DIR}/worker_runtime/include)
endfunction()
