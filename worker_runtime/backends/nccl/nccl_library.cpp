#include "worker_runtime/backends/nccl/nccl_library.hpp"

#include <ddprun/error.hpp>

#include <string>

namespace ddprun::nccl {

namespace {

// First version with non-blocking communicators; 12 is the format of this number.
constexpr int kOldestVersion = 21400;

NcclCalls calls_of(const LoadedGpuLibrary& library) {
  NcclCalls calls{};
  library.find("ncclGetVersion", calls.get_version);
  int version = 0;
  if (calls.get_version(&version) != ncclSuccess || version < kOldestVersion) {
    throw Error(Errc::nccl, "its version is " + std::to_string(version) + " (at least " +
                                std::to_string(kOldestVersion) + " is needed)");
  }
  library.find("ncclGetUniqueId", calls.get_unique_id);
  library.find("ncclCommInitRankConfig", calls.comm_init_rank_config);
  library.find("ncclCommGetAsyncError", calls.comm_get_async_error);
  library.find("ncclCommFinalize", calls.comm_finalize);
  library.find("ncclCommDestroy", calls.comm_destroy);
  library.find("ncclCommAbort", calls.comm_abort);
  library.find_if_there("ncclCommRevoke", calls.comm_revoke);
  library.find_if_there("ncclMemAlloc", calls.mem_alloc);
  library.find_if_there("ncclMemFree", calls.mem_free);
  library.find_if_there("ncclCommRegister", calls.comm_register);
  library.find_if_there("ncclCommDeregister", calls.comm_deregister);
  library.find("ncclGetErrorString", calls.get_error_string);
  library.find("ncclGetLastError", calls.get_last_error);
  library.find("ncclAllReduce", calls.all_reduce);
  library.find("ncclBroadcast", calls.broadcast);
  library.find("ncclReduce", calls.reduce);
  library.find("ncclAllGather", calls.all_gather);
  library.find("ncclReduceScatter", calls.reduce_scatter);
  library.find("ncclSend", calls.send);
  library.find("ncclRecv", calls.recv);
  library.find("ncclGroupStart", calls.group_start);
  library.find("ncclGroupEnd", calls.group_end);
  return calls;
}

}  // namespace

const GpuLibrary& nccl_library() {
  static const GpuLibrary kLibrary{.title = "NCCL",
                                   .file = "libnccl.so.2",
                                   .variable = "DDPRUN_NCCL_LIBRARY",
                                   .package_folders = {"nvidia/nccl/lib"},
                                   .failure = Errc::nccl};
  return kLibrary;
}

NcclCalls load_nccl() {
  NcclCalls calls{};
  load_gpu_library(nccl_library(), gpu_library_places(nccl_library()),
                   [&calls](const auto& loaded) { calls = calls_of(loaded); });
  return calls;
}

}  // namespace ddprun::nccl
