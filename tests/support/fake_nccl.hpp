// NCCL for the fake devices: communicators of ranks that are threads of this process, based on the
// collectives of the in-process backend. Tests can request errors of NCCL.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"

#include <atomic>
#include <vector>

namespace ddprun::test {

const nccl::NcclCalls& fake_nccl();

/// Fault of each communicator, until it is reset.
struct NcclFaults {
  std::atomic<ncclResult_t> unique_id = ncclSuccess;   ///< result of creating one
  std::atomic<ncclResult_t> collective = ncclSuccess;  ///< found by rank 1 during its next
                                                       ///< collective
  std::atomic<bool> hangs_in_abort = false;
  std::atomic<ncclResult_t> revoke = ncclSuccess;  ///< its result
  std::atomic<bool> hangs_in_revoke = false;
  std::atomic<bool> is_revoke_endless = false;           ///< the call returns but never completes
  std::atomic<bool> hangs_in_id = false;                 ///< creating a unique id hangs
  std::atomic<ncclResult_t> allocation = ncclSuccess;    ///< result of each
  std::atomic<ncclResult_t> registration = ncclSuccess;  ///< result of each on rank 1
  std::atomic<bool> only_seems_to_register = false;      ///< like NCCL_LOCAL_REGISTER=0

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

/// Number of communicators that were aborted rather than destroyed.
int fake_aborts();

/// Number of errors of communicators that were reported.
const std::atomic<int>& fake_reported_errors();

/// Communicators of the launches by ranks with this number, numbered in the order of their unique
/// ids, since the start of the process.
std::vector<int> fake_launches(int rank);

/// Number of communicators that were neither destroyed nor aborted.
int fake_communicators();

}  // namespace ddprun::test
