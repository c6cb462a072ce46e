# ddprun_find_libtorch(LACKS): makes the target ddprun_torch, which stands for LibTorch, or sets LACKS to why there is none. A function,
# so that what LibTorch's package sets stays in here. Used by the project and by its installed package.
function(ddprun_find_libtorch lacks)
  # Its package tells of each of its own dependencies.
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  # That of a LibTorch for CUDA tries nvcc, with the project's standard of C++ unless told; of C++20 CMake 3.25 takes
  # nvcc to know nothing.
  set(CMAKE_CUDA_STANDARD 17)
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    set(${lacks} "LibTorch was not found (CMAKE_PREFIX_PATH may name its folder; Debian: libtorch-dev)" PARENT_SCOPE)
    return()
  endif()
  # 1.13 is the oldest that has been tried.
  if(Torch_VERSION VERSION_LESS 1.13)
    set(${lacks} "LibTorch ${Torch_VERSION} was found, 1.13 or newer is needed" PARENT_SCOPE)
    return()
  endif()
  if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    set(${lacks} "LibTorch in ${TORCH_INSTALL_PREFIX} has the old ABI of libstdc++: take one with the C++11 ABI" PARENT_SCOPE)
    return()
  endif()
  if(NOT TARGET ddprun_torch)
    add_library(ddprun_torch INTERFACE)
    target_link_libraries(ddprun_torch INTERFACE ${TORCH_LIBRARIES})
    # A wheel's libraries need those of its neighbours, an NCCL newer than a CUDA toolkit's for example.
    file(GLOB neighbours ${TORCH_INSTALL_PREFIX}/../nvidia/*/lib)
    foreach(folder IN LISTS neighbours)
      get_filename_component(folder ${folder} ABSOLUTE)
      target_link_options(ddprun_torch INTERFACE LINKER:-rpath-link,${folder})
    endforeach()
  endif()
  set(${lacks} "" PARENT_SCOPE)
  set(DDPRUN_LIBTORCH_VERSION ${Torch_VERSION} PARENT_SCOPE)
endfunction()
