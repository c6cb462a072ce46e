// How many workers a node may have, wherever that is asked.
#pragma once

namespace ddprun {

/// Far above the cores of any node; bounds the size of the control page, and keeps a slip of the
/// finger from becoming a million processes.
inline constexpr int kLocalWorkersMax = 1024;

}  // namespace ddprun
