// Function table of NCCL: of a library loaded at run time, or of a test without a GPU.
#pragma once

#include <nccl.h>

namespace ddprun::nccl {

struct NcclCalls {
  ncclResult_t (*get_version)(int* version);
  ncclResult_t (*get_unique_id)(ncclUniqueId* id);
  ncclResult_t (*comm_init_rank_config)(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                        ncclConfig_t* config);
  ncclResult_t (*comm_get_async_error)(ncclComm_t comm, ncclResult_t* error);
  ncclResult_t (*comm_finalize)(ncclComm_t comm);
  ncclResult_t (*comm_destroy)(ncclComm_t comm);
  ncclResult_t (*comm_abort)(ncclComm_t comm);
  /// Null before 2.28.
  ncclResult_t (*comm_revoke)(ncclComm_t comm, int flags);
  // Registered memory; null before 2.19.
  ncclResult_t (*mem_alloc)(void** memory, size_t bytes);
  ncclResult_t (*mem_free)(void* memory);
  ncclResult_t (*comm_register)(ncclComm_t comm, void* memory, size_t bytes, void** handle);
  ncclResult_t (*comm_deregister)(ncclComm_t comm, void* handle);
  const char* (*get_error_string)(ncclResult_t result);
  const char* (*get_last_error)(ncclComm_t comm);
  ncclResult_t (*all_reduce)(const void* input, void* output, size_t count, ncclDataType_t type,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*broadcast)(const void* input, void* output, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*reduce)(const void* input, void* output, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*all_gather)(const void* input, void* output, size_t count, ncclDataType_t type,
                             ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*reduce_scatter)(const void* input, void* output, size_t count, ncclDataType_t type,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*send)(const void* input, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*recv)(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);
  ncclResult_t (*group_start)();
  ncclResult_t (*group_end)();
};

}  // namespace ddprun::nccl
