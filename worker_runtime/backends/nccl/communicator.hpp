// One rank's part in an NCCL communicator. NCCL is never asked to block: it then neither heeds a
// deadline nor can be aborted. What it has begun is waited for here.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"
#include "worker_runtime/backends/nccl/watch.hpp"

#include <functional>
#include <string>

namespace ddprun::nccl {

/// For each call by which NCCL lets go of a communicator. It was seen to hang there.
inline constexpr std::chrono::seconds kEndTimeout{2};
/// Once it has agreed to revoke a communicator, for what is under way to end.
inline constexpr std::chrono::seconds kRevokeTimeout{1};

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

  /// To be called with what a function of NCCL returned for this communicator: waits until it has
  /// begun what it was asked for. Throws as check() does, and Error{Errc::timeout}.
  void settle(ncclResult_t result, const std::string& what, const Watch& watch);

  /// Throws if NCCL has failed meanwhile: PeerFailed if another rank is to blame, Error{Errc::nccl}
  /// else.
  void check(const std::function<std::string()>& what);

  /// Lets go of it with the other ranks; all collectives have ended.
  void finish() noexcept;

  /// Lets go of it at once: collectives under way end, with whatever result. Where NCCL has it by
  /// ncclCommRevoke, which needs no other rank to do the same and after which a communicator is
  /// freed as any other; where that fails, or there is none, by ncclCommAbort. Ends the process if
  /// one of them does not come back within kEndTimeout.
  void abort() noexcept;

 private:
  [[noreturn]] void fail(ncclResult_t result, const std::string& what);
  bool revoke() noexcept;
  void end(ncclResult_t (*function)(ncclComm_t)) noexcept;
  ncclResult_t come_back(const std::function<ncclResult_t()>& call) noexcept;

  const NcclCalls& (*const calls_)();
  const std::string name_;
  ncclComm_t comm_ = nullptr;
  bool has_met_ = false;  ///< all ranks are in it
};

}  // namespace ddprun::nccl
