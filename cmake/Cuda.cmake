# The language CUDA, for our own kernels; needs no GPU. DDPRUN_HAS_CUDA says whether there is a compiler for it.
ddprun_optional_part(DDPRUN_CUDA "What is made for GPUs: AUTO (if the CUDA toolkit with nvcc is found), ON or OFF")

# Why nothing is made for GPUs; empty if it is.
set(DDPRUN_CUDA_LACKS "")
if(DDPRUN_CUDA STREQUAL "OFF")
  set(DDPRUN_CUDA_LACKS "switched off")
else()
  # 12.0 is the first whose compiler knows C++20.
  find_package(CUDAToolkit 12.0 QUIET)
  find_path(
    cublas_headers cublas_v2.h
    PATHS ${CUDAToolkit_INCLUDE_DIRS}
    NO_DEFAULT_PATH NO_CACHE)
  if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart_static OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(DDPRUN_CUDA_LACKS "the CUDA toolkit (12.0 or newer) with nvcc was not found (CUDAToolkit_ROOT names its folder)")
  elseif(NOT cublas_headers)
    set(DDPRUN_CUDA_LACKS "the CUDA toolkit in ${CUDAToolkit_INCLUDE_DIRS} lacks cublas_v2.h of cuBLAS")
  elseif(DDPRUN_CUDA STREQUAL "AUTO" AND NOT CMAKE_CUDA_COMPILER)
    # It may refuse the host's compiler.
    if(NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    unset(CMAKE_CUDA_COMPILER CACHE) # what was missing last time may be there
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      set(DDPRUN_CUDA_LACKS
          "$ENV{CUDACXX} compiles nothing here, see CMakeFiles/CMakeError.log; CUDAHOSTCXX may name a C++ compiler for it")
    endif()
  endif()
  if(DDPRUN_CUDA STREQUAL "ON" AND DDPRUN_CUDA_LACKS)
    message(FATAL_ERROR "DDPRUN_CUDA is ON: ${DDPRUN_CUDA_LACKS}")
  endif()
endif()
set(DDPRUN_HAS_CUDA OFF)
if(DDPRUN_CUDA_LACKS)
  return()
endif()
set(DDPRUN_HAS_CUDA ON)

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
