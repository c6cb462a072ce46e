// NCCL for the fake's devices: communicators of ranks that are threads of this process, over the
// collectives of the in-process backend. What NCCL does wrong can be asked for.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"

#include <atomic>

namespace ddprun::test {

const nccl::NcclCalls& fake_nccl();

/// What goes wrong with each communicator, until it is taken back.
struct NcclFaults {
  std::atomic<ncclResult_t> unique_id = ncclSuccess;   ///< what asking for one returns
  std::atomic<ncclResult_t> collective = ncclSuccess;  ///< that rank 1 finds during its next one
  std::atomic<bool> hangs_in_abort = false;
  std::atomic<ncclResult_t> revoke = ncclSuccess;  ///< what it returns
  std::atomic<bool> hangs_in_revoke = false;
  std::atomic<bool> is_revoke_endless = false;           ///< it comes back, and is never done
  std::atomic<bool> hangs_in_id = false;                 ///< no unique id is ever made
  std::atomic<ncclResult_t> allocation = ncclSuccess;    ///< what each returns
  std::atomic<ncclResult_t> registration = ncclSuccess;  ///< what each of rank 1 returns
  std::atomic<bool> only_seems_to_register = false;      ///< as with NCCL_LOCAL_REGISTER=0

  void take_back() {
    unique_id = ncclSuccess;
    collective = ncclSuccess;
    hangs_in_abort = hangs_in_id = false;
    hangs_in_id.notify_all();
    revoke = ncclSuccess;
    hangs_in_revoke = false;
    hangs_in_revoke.notify_all();
    is_revoke_endless = false;
    allocation = ncclSuccess;
    registration = ncclSuccess;
    only_seems_to_register = false;
  }
};
NcclFaults& nccl_faults();

/// How often communicators have been aborted rather than destroyed.
int fake_aborts();

/// Communicators that have been neither destroyed nor aborted.
int fake_communicators();

}  // namespace ddprun::test
