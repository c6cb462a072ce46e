// One rank's part in an NCCL communicator. NCCL is never asked to block: it then neither heeds a
// deadline nor can be aborted. What it has begun is waited for here.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"
#include "worker_runtime/backends/nccl/watch.hpp"

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace ddprun::nccl {

/// For each call by which NCCL lets go of a communicator. It was seen to hang there.
inline constexpr std::chrono::seconds kEndTimeout{2};
/// For an abort after a capture, which goes on for as long as there are graphs: what ends their
/// kernels is the first thing that it does.
inline constexpr std::chrono::milliseconds kCapturedEnd{100};
/// Once it has agreed to revoke a communicator, for what is under way to end.
inline constexpr std::chrono::seconds kRevokeTimeout{1};

/// Used by one thread at a time, but for memory, which any thread registers and gives back.
class Communicator {
 public:
  /// `calls` is asked when NCCL is needed; `name` is the group's.
  Communicator(const NcclCalls& (*calls)(), std::string name)
      : calls_(calls), name_(std::move(name)) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { abort(); }

  /// Meets the other ranks. Throws Error{Errc::timeout} if they do not come. Once.
  void connect(const ncclUniqueId& id, int rank, int ranks, const Watch& watch);

  bool is_connected() const { return comm_ != nullptr; }
  ncclComm_t get() const { return comm_; }

  /// Held while NCCL is asked for a collective: what it keeps of registered memory, which it looks
  /// at then, is not made for several threads.
  std::unique_lock<std::mutex> take_turn() { return std::unique_lock(mutex_); }

  /// To be called with what a function of NCCL returned for this communicator: waits until it has
  /// begun what it was asked for. Throws as check() does, and Error{Errc::timeout}.
  void settle(ncclResult_t result, const std::string& what, const Watch& watch);

  /// A collective is about to be captured. NCCL keeps a communicator until all graphs that it is
  /// part of are destroyed, so from now on a thread is left behind with an end that takes long.
  void note_capture() { is_captured_ = true; }

  /// Throws if NCCL has failed meanwhile: PeerFailed if another rank is to blame, Error{Errc::nccl}
  /// else.
  void check(const std::function<std::string()>& what);

  /// Lets go of it with the other ranks; all collectives have ended.
  void finish() noexcept;

  /// Lets go of it at once: collectives under way end, with whatever result. Where NCCL has it by
  /// ncclCommRevoke, which needs no other rank to do the same and after which a communicator is
  /// freed as any other; where that fails, or there is none, by ncclCommAbort. Ends the process if
  /// one of them does not come back within kEndTimeout. After a capture always by ncclCommAbort,
  /// which ends the kernels of graphs that are launched later, too: a revocation is over when
  /// NCCL's own streams are quiet, and those of a graph that comes then would spin for good.
  void abort() noexcept;

  /// NCCL's handle of the memory, for deregister(). Throws Error{Errc::nccl} if NCCL takes none, or
  /// this communicator has not met its ranks or has ended.
  void* register_memory(void* memory, std::size_t bytes);

  /// Nothing once the communicator has ended: it has forgotten its memory, and knows no handles.
  void deregister(void* handle) noexcept;

 private:
  [[noreturn]] void fail(ncclResult_t result, const std::string& what);
  bool finalize() noexcept;
  bool revoke() noexcept;
  void end(ncclResult_t (*function)(ncclComm_t), Deadline::Duration limit) noexcept;
  ncclResult_t come_back(const std::function<ncclResult_t()>& call,
                         Deadline::Duration limit) noexcept;

  const NcclCalls& (*const calls_)();
  const std::string name_;
  ncclComm_t comm_ = nullptr;
  bool has_met_ = false;      ///< all ranks are in it
  bool is_captured_ = false;  ///< there may be graphs with it
  std::mutex mutex_;          ///< for the list of memory, and for the end
};

}  // namespace ddprun::nccl
