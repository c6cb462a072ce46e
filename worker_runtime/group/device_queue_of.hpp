// Access of the layers above process groups to a group's device.
#pragma once

#include "worker_runtime/backends/device_queue.hpp"
#include <ddprun/process_group.hpp>

namespace ddprun {

/// Returns the device queue of this rank, owned by the group; null if the group's backend supports
/// no device. Any thread; does not block.
DeviceQueue* device_queue_of(const ProcessGroup& group);

}  // namespace ddprun
