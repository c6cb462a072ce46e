// Backend for ranks with a CUDA device each. Device buffers use NCCL, all others the host backend,
// which also connects the ranks and detects their failures: NCCL does not detect the death of a
// rank on the same machine.
//
// The first collective on device buffers creates the communicator. Messages of device buffers pass
// through host memory: NCCL has no tags, and its sends wait for their receivers.
#pragma once

#include "rendezvous/control/control_page.hpp"
#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include "worker_runtime/backends/nccl/device_module.hpp"
#include "worker_runtime/backends/nccl/module_device.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/group_options.hpp>
#include <ddprun/worker_env.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Returns why these workers cannot use NCCL, such as too few GPUs or a missing library; empty if
/// they can.
std::string nccl_unavailable_reason(const WorkerEnv& env);

/// Returns true if a GPU is visible to this process, usable or not.
bool has_visible_gpu(const WorkerEnv& env);

/// A worker's device and the module's functions.
struct CudaDevice {
  const nccl::DeviceTable* table = nullptr;
  Device device{};
  bool is_shared = false;          ///< used by several workers
  std::string nccl_unavailable{};  ///< why the devices cannot exchange data; empty if they can
};

struct NoCudaDevice {
  enum class Kind {
    no_gpu,      ///< no GPU is visible
    not_for_it,  ///< GPUs are visible, but none is usable by this worker
    broken,      ///< CUDA does not work
  };
  Kind kind = Kind::no_gpu;
  std::string reason{};
};

/// Blocks, without limit if CUDA's driver hangs.
std::variant<CudaDevice, NoCudaDevice> find_cuda_device(const WorkerEnv& env);

/// Connects to the other ranks through the store of the place's environment. Blocks.
std::unique_ptr<Backend> create_nccl_backend(const GroupPlace& place, const GroupOptions& options,
                                             Deadline deadline);

namespace nccl {

class NcclBackend final : public Backend {
 public:
  struct Place {
    ModuleDevice::Place device;
    std::optional<control::ControlPage> page = {};  ///< of this rank's agent, if any
    int slot = 0;                                   ///< this rank's slot in the page
  };

  /// `table` must outlive this object.
  NcclBackend(std::unique_ptr<WatchfulBackend> host, const DeviceTable& table, Place place);

  void enter(Deadline deadline) override { host_->enter(deadline); }
  void leave() noexcept override;
  /// For host buffers and messages.
  void run(const Operation& operation, Deadline deadline) override;
  /// On the host.
  std::shared_ptr<void> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  std::string stall_reason() const override;
  void abort(const std::string& reason) noexcept override;
  DeviceQueue* device_queue() override { return &device_; }

 private:
  void pass_message(Operation operation, Deadline deadline);

  const std::unique_ptr<WatchfulBackend> host_;
  const Place place_;
  ModuleDevice device_;
  std::vector<std::byte> message_;  ///< host copy of a message of a device buffer
};

}  // namespace nccl

}  // namespace ddprun
