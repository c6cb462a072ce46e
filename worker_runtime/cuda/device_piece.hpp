// A part of a copy on a device, of which many are carried out at once.
#pragma once

#include <cstddef>

namespace ddprun {

/// So many elements from one place on the device to another one; both may be the same, or apart.
struct DevicePiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t elements = 0;
};

}  // namespace ddprun
