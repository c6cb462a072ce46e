// Maximum number of workers per node.
#pragma once

namespace ddprun {

/// Far above the cores of any node; bounds the size of the control page, and keeps a slip of the
/// finger from becoming a million processes.
inline constexpr int kLocalWorkersMax = 1024;

}  // namespace ddprun
