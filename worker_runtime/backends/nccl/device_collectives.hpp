// The collectives of buffers on one CUDA device, by NCCL. Each is carried out on a stream of its
// own, behind what the caller's stream had been given, and has ended when run() returns. Messages
// and barriers are no business of this class.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/nccl/communicator.hpp"
#include "worker_runtime/cuda/device_objects.hpp"
#include "worker_runtime/cuda/kernel_calls.hpp"
#include <ddprun/deadline.hpp>

#include <functional>
#include <mutex>
#include <string>

namespace ddprun::nccl {

/// What both libraries, and our own kernels, are asked through.
struct Libraries {
  const NcclCalls* nccl = nullptr;
  const cuda::CudaCalls* cuda = nullptr;
  const cuda::KernelCalls* kernels = nullptr;
};

struct DevicePlace {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  std::string group;
};

class DeviceCollectives {
 public:
  /// `look` throws once the group has failed elsewhere; it is called while something is waited for.
  /// Blocks while CUDA makes itself at home on the device.
  DeviceCollectives(const Libraries& libraries, DevicePlace place, std::function<void()> look);

  void connect(const ncclUniqueId& id, Deadline deadline);

  /// Once connected, as Backend::run().
  void run(const Operation& operation, Deadline deadline);

  /// `from` and `to` may be on the device or not. Blocks.
  void copy(void* to, const void* from, std::size_t bytes, void* stream, Deadline deadline);

  /// No run() is under way nor will be. The other ranks do so, too.
  void finish() noexcept { communicator_.finish(); }

  /// Makes a run() under way fail. Any thread.
  void abort(const std::string& reason) noexcept;

 private:
  void launch(const Operation& operation, const Watch& watch);
  void reduce(const Operation& operation, const Watch& watch);
  void exchange(Operation operation, const Watch& watch);
  void copy_on_device(const void* from, void* to, std::size_t bytes);
  void follow(void* stream);
  void drain() noexcept;
  void await_end(const std::string& what, const Watch& watch);
  Watch watch(Deadline deadline);
  void look();

  const Libraries libraries_;
  const DevicePlace place_;
  const std::function<void()> look_;
  cuda::Stream stream_;
  cuda::Event begun_;  ///< on the caller's stream: what came before a call is done
  cuda::Event ended_;  ///< on this one
  cuda::Scratch scratch_;
  Communicator communicator_;
  Alarm alarm_;  ///< rings with an abort
  std::mutex mutex_;
  std::string abort_reason_;
};

}  // namespace ddprun::nccl
