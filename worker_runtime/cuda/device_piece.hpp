// An element of a batch of copies on a device.
#pragma once

#include <cstddef>

namespace ddprun {

/// Source and destination on the device, which are equal or disjoint.
struct DevicePiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t elements = 0;
};

}  // namespace ddprun
