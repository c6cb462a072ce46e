#include "worker_runtime/backends/nccl/communicator.hpp"

#include "worker_runtime/cuda/device_objects.hpp"
#include <ddprun/error.hpp>
#include <ddprun/peer_failed.hpp>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

namespace ddprun::nccl {

void Communicator::connect(const ncclUniqueId& id, int rank, int ranks, const Watch& watch) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::string what = "process group \"" + name_ + "\": meeting the other ranks over NCCL";
  const auto turn = take_turn();
  settle(calls().comm_init_rank_config(&comm_, ranks, id, rank, &config), what, watch);
  has_met_ = true;
}

void Communicator::settle(ncclResult_t result, const std::string& what, const Watch& watch) {
  const auto has_begun = [&] {
    if (result == ncclInProgress && calls().comm_get_async_error(comm_, &result) != ncclSuccess)
      result = ncclInternalError;
    return result != ncclInProgress;
  };
  if (!await(has_begun, watch))
    throw Error(Errc::timeout, what + ": not done " + watch.deadline.describe());
  if (result != ncclSuccess) fail(result, what);
}

void Communicator::check(const std::function<std::string()>& what) {
  ncclResult_t error = ncclSuccess;
  const ncclResult_t status = calls().comm_get_async_error(comm_, &error);
  if (status != ncclSuccess) fail(status, what());
  if (error != ncclSuccess && error != ncclInProgress) fail(error, what());
}

void Communicator::fail(ncclResult_t result, const std::string& what) {
  std::string text = what + ": " + calls().get_error_string(result);
  const char* last = calls().get_last_error(comm_);
  if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
  // NCCL reports a broken connection without the rank.
  if (result == ncclRemoteError) throw PeerFailed(-1, text);
  throw Error(Errc::nccl, text);
}

void Communicator::finish() noexcept {
  if (comm_ == nullptr) return;
  const auto turn = take_turn();
  end(finalize() ? calls().comm_destroy : calls().comm_abort, kEndTimeout);
}

bool Communicator::finalize() noexcept {
  ncclResult_t state = calls().comm_finalize(comm_);
  const auto is_final = [&] {
    if (state == ncclInProgress && calls().comm_get_async_error(comm_, &state) != ncclSuccess)
      state = ncclInternalError;
    return state != ncclInProgress;
  };
  Alarm silence;
  // Ranks that have not ended by then are not awaited; they do not depend on this one.
  return await(is_final, {Deadline::after(kEndTimeout), silence, [] {}}) && state == ncclSuccess;
}

void Communicator::abort() noexcept {
  if (comm_ == nullptr) return;
  const auto turn = take_turn();
  end(revoke() ? calls().comm_destroy : calls().comm_abort,
      is_captured_ ? Deadline::Duration(kCapturedEnd) : kEndTimeout);
}

void* Communicator::register_memory(void* memory, std::size_t bytes) {
  const std::string what = "ncclCommRegister of " + std::to_string(bytes) + " bytes";
  const auto turn = take_turn();
  if (comm_ == nullptr || !has_met_) throw Error(Errc::nccl, what + ": no communicator");
  void* handle = nullptr;
  const ncclResult_t result = calls().comm_register(comm_, memory, bytes, &handle);
  if (result != ncclSuccess)
    throw Error(Errc::nccl, what + ": " + calls().get_error_string(result));
  // NCCL reports that it was aborted.
  if (handle == nullptr)
    throw Error(Errc::nccl, what + ": not done (NCCL_LOCAL_REGISTER may forbid it)");
  return handle;
}

void Communicator::deregister(void* handle) noexcept {
  const auto turn = take_turn();
  if (comm_ != nullptr) calls().comm_deregister(comm_, handle);
}

/// Returns true if no operation is in progress. Calls must have returned in any case, since an
/// abort frees the communicator that they use.
bool Communicator::revoke() noexcept {
  const NcclCalls& nccl = calls();
  if (nccl.comm_revoke == nullptr || !has_met_ || is_captured_) return false;
  ncclResult_t state = run_limited(
      [&nccl, comm = comm_] {
        constexpr int kDefault = 0;
        return nccl.comm_revoke(comm, kDefault);
      },
      kEndTimeout);
  const auto is_quiet = [&] {
    if (state == ncclSuccess || state == ncclInProgress) {
      if (nccl.comm_get_async_error(comm_, &state) != ncclSuccess) state = ncclInternalError;
    }
    return state != ncclInProgress;
  };
  Alarm silence;
  return await(is_quiet, {Deadline::after(kRevokeTimeout), silence, [] {}}) && state == ncclSuccess;
}

void Communicator::end(ncclResult_t (*function)(ncclComm_t), Deadline::Duration limit) noexcept {
  run_limited([function, comm = std::exchange(comm_, nullptr)] { return function(comm); }, limit);
}

/// Runs `call` on a separate thread, since it may hang. Ends the process if it does not return,
/// unless graphs may exist: then the thread is detached until they are destroyed.
ncclResult_t Communicator::run_limited(const std::function<ncclResult_t()>& call,
                                       Deadline::Duration limit) noexcept {
  std::packaged_task<ncclResult_t()> task([call, &cuda = *libraries_.cuda, device = device_] {
    // NCCL would initialise CUDA on device 0, that of new threads.
    const auto home = cuda::try_on_device(cuda, device);
    return call();
  });
  auto result = task.get_future();
  std::thread thread(std::move(task));
  const bool is_back = result.wait_for(limit) == std::future_status::ready;
  if (!is_back && is_captured_) {
    thread.detach();
    return ncclInProgress;
  }
  if (!is_back) {
    std::fprintf(stderr,
                 "ddprun: process group \"%s\": NCCL has not let go of its communicator after %lld "
                 "s; ending the process\n",
                 name_.c_str(), static_cast<long long>(kEndTimeout.count()));
    std::_Exit(EXIT_FAILURE);
  }
  thread.join();
  return result.get();
}

}  // namespace ddprun::nccl
