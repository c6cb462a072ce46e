// A rank of an NCCL communicator, in non-blocking mode: blocking calls of NCCL have no deadline and
// cannot be aborted. This class waits for their completion.
#pragma once

#include "worker_runtime/backends/nccl/libraries.hpp"
#include "worker_runtime/backends/nccl/watch.hpp"

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace ddprun::nccl {

/// Time limit of calls that destroy a communicator, in which NCCL may hang.
inline constexpr std::chrono::seconds kEndTimeout{2};
/// Time after which an abort with graphs has ended their kernels. The call itself returns when the
/// graphs are destroyed.
inline constexpr std::chrono::milliseconds kCapturedEnd{100};
/// Time limit for running collectives to end after a revocation.
inline constexpr std::chrono::seconds kRevokeTimeout{1};

/// One thread at a time, except for registered memory. The device must be that of the calling
/// thread.
class Communicator {
 public:
  /// Loads NCCL on first use. `name`: name of the group.
  Communicator(const Libraries& libraries, int device, std::string name)
      : libraries_(libraries), device_(device), name_(std::move(name)) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { abort(); }

  /// Connects to the other ranks, once. Throws Error{Errc::timeout} if ranks are missing.
  void connect(const ncclUniqueId& id, int rank, int ranks, const Watch& watch);

  bool is_connected() const { return comm_ != nullptr; }
  ncclComm_t get() const { return comm_; }

  /// Lock for calls of collectives, in which NCCL reads its list of registered memory without
  /// synchronisation.
  std::unique_lock<std::mutex> take_turn() { return std::unique_lock(mutex_); }

  /// Waits until an asynchronous call of NCCL with this result has completed. Throws like
  /// check(), and Error{Errc::timeout}.
  void settle(ncclResult_t result, const std::string& what, const Watch& watch);

  /// Marks that a collective will be captured. NCCL keeps a communicator until its graphs are
  /// destroyed, so a detached thread ends the communicator if that takes long.
  void note_capture() { is_captured_ = true; }

  /// Throws if NCCL has failed: PeerFailed if another rank is the cause, otherwise
  /// Error{Errc::nccl}.
  void check(const std::function<std::string()>& what);

  /// Destroys it on all ranks together, after all collectives have ended.
  void finish() noexcept;

  /// Destroys it immediately; running collectives end with undefined results. Uses ncclCommRevoke
  /// if available, which does not depend on other ranks and after which the communicator is
  /// destroyed as usual; otherwise, or if that fails, ncclCommAbort. Ends the process if a call
  /// does not return within kEndTimeout. After a capture only ncclCommAbort is used, which also
  /// ends kernels of graphs that are launched later; after a revocation these would never end.
  void abort() noexcept;

  /// Returns NCCL's handle of the memory, for deregister(). Throws Error{Errc::nccl} if NCCL
  /// refuses it or this communicator is not connected.
  void* register_memory(void* memory, std::size_t bytes);

  /// Does nothing after the communicator has ended, which has freed its handles.
  void deregister(void* handle) noexcept;

 private:
  [[noreturn]] void fail(ncclResult_t result, const std::string& what);
  bool finalize() noexcept;
  bool revoke() noexcept;
  void end(ncclResult_t (*function)(ncclComm_t), Deadline::Duration limit) noexcept;
  ncclResult_t run_limited(const std::function<ncclResult_t()>& call,
                           Deadline::Duration limit) noexcept;

  const NcclCalls& calls() const { return libraries_.nccl(); }

  const Libraries libraries_;
  const int device_;
  const std::string name_;
  ncclComm_t comm_ = nullptr;
  bool has_met_ = false;      ///< all ranks are connected
  bool is_captured_ = false;  ///< graphs may contain it
  std::mutex mutex_;          ///< guards registered memory and the end
};

}  // namespace ddprun::nccl
