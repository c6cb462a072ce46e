// Ranks with a CUDA device each: buffers on devices go by NCCL, all others by the host backend,
// which is also how the ranks meet and hear of each other's failures. NCCL does neither: of ranks
// on one machine it does not notice that one has died.
//
// The communicator is made by the first collective of buffers on devices. Messages of such buffers
// take the way through the host's memory: NCCL knows no tags, and its sends wait for their
// receiver.
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

/// Why these workers cannot use NCCL: there is no GPU for each, or no NCCL. Empty if they can.
std::string nccl_unavailable_reason(const WorkerEnv& env);

/// Whether this process sees a GPU, whether it can use it or not.
bool has_visible_gpu(const WorkerEnv& env);

/// A worker's device, and through what it is asked.
struct CudaDevice {
  const nccl::DeviceTable* table = nullptr;
  Device device{};
  bool is_shared = false;          ///< with other workers
  std::string nccl_unavailable{};  ///< why the workers' devices cannot exchange data; or nothing
};

struct NoCudaDevice {
  enum class Kind {
    no_gpu,      ///< this machine has none, or shows this process none
    not_for_it,  ///< there are some, and this worker cannot use one
    broken,      ///< CUDA does not work
  };
  Kind kind = Kind::no_gpu;
  std::string reason{};
};

/// Blocks, for good if CUDA's driver does.
std::variant<CudaDevice, NoCudaDevice> find_cuda_device(const WorkerEnv& env);

/// Meets the other ranks through the store of the place's environment. Blocking.
std::unique_ptr<Backend> create_nccl_backend(const GroupPlace& place, const GroupOptions& options,
                                             Deadline deadline);

namespace nccl {

class NcclBackend final : public Backend {
 public:
  struct Place {
    ModuleDevice::Place device;
    std::optional<control::ControlPage> page = {};  ///< of this rank's agent, if it has one
    int slot = 0;                                   ///< in it
  };

  /// `table` outlives this object.
  NcclBackend(std::unique_ptr<WatchfulBackend> host, const DeviceTable& table, Place place);

  void enter(Deadline deadline) override { host_->enter(deadline); }
  void leave() noexcept override;
  /// Of buffers on the host, and messages.
  void run(const Operation& operation, Deadline deadline) override;
  /// On the host.
  std::shared_ptr<void> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  std::string hold_up() const override;
  void abort(const std::string& reason) noexcept override;
  DeviceQueue* device_queue() override { return &device_; }

 private:
  void pass_message(Operation operation, Deadline deadline);

  const std::unique_ptr<WatchfulBackend> host_;
  const Place place_;
  ModuleDevice device_;
  std::vector<std::byte> message_;  ///< on its way between device and host
};

}  // namespace nccl

}  // namespace ddprun
