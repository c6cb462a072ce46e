# LibTorch, for DDP around its modules. DDPRUN_HAS_LIBTORCH says whether it is there, as target ddprun_torch.
ddprun_optional_part(DDPRUN_LIBTORCH "DDP for LibTorch: AUTO (if LibTorch is found, CMAKE_PREFIX_PATH may name its folder), ON or OFF")

# Why there is none; empty if there is.
set(DDPRUN_LIBTORCH_LACKS "")
if(DDPRUN_LIBTORCH STREQUAL "OFF")
  set(DDPRUN_LIBTORCH_LACKS "switched off")
else()
  include(${PROJECT_SOURCE_DIR}/worker_runtime/libtorch/find_libtorch.cmake)
  ddprun_find_libtorch(DDPRUN_LIBTORCH_LACKS)
  if(DDPRUN_LIBTORCH STREQUAL "ON" AND DDPRUN_LIBTORCH_LACKS)
    message(FATAL_ERROR "DDPRUN_LIBTORCH is ON: ${DDPRUN_LIBTORCH_LACKS}")
  endif()
endif()
set(DDPRUN_HAS_LIBTORCH OFF)
if(NOT DDPRUN_LIBTORCH_LACKS)
  set(DDPRUN_HAS_LIBTORCH ON)
endif()
