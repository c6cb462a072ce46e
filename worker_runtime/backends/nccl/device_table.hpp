// The module's side of the border: DeviceCollectives as the functions of device_module.hpp.
#pragma once

#include "worker_runtime/backends/nccl/device_collectives.hpp"
#include "worker_runtime/backends/nccl/device_module.hpp"

namespace ddprun::nccl {

/// `libraries` outlive all that is made through the table.
DeviceTable make_device_table(const Libraries& libraries);

}  // namespace ddprun::nccl
