// Maximum number of workers per node.
#pragma once

namespace ddprun {

/// Far above the number of cores of any node. Bounds the size of the control page, and prevents a
/// typing error from starting a million processes.
inline constexpr int kLocalWorkersMax = 1024;

}  // namespace ddprun
