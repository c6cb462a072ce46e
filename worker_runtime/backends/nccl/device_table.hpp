// The module's side of the interface: DeviceCollectives as the functions of device_module.hpp.
#pragma once

#include "worker_runtime/backends/nccl/device_collectives.hpp"
#include "worker_runtime/backends/nccl/device_module.hpp"

namespace ddprun::nccl {

/// `libraries` must outlive all objects created through the table.
DeviceTable make_device_table(const Libraries& libraries);

}  // namespace ddprun::nccl
