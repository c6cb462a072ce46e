#include "worker_runtime/ddp/own_gradients.hpp"

#include "worker_runtime/collectives/wide_types.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddprun {

void add_widened(const Buffer& from, const Buffer& to) {
  std::array<float, 1024> wide;  // stays in the first cache
  for (std::size_t first = 0; first < from.elements; first += wide.size()) {
    const std::size_t count = std::min(wide.size(), from.elements - first);
    collectives::widen(from.type, ReduceOp::sum, from.slice(first, count).data, wide.data(), count);
    auto* sums = static_cast<float*>(to.data) + first;
    for (std::size_t i = 0; i < count; ++i) sums[i] += wide[i];
  }
}

void copy_elements(const Buffer& from, const Buffer& to) {
  if (from.elements > 0) std::memcpy(to.data, from.data, from.bytes());
}

void fill_zero(const Buffer& buffer) {
  if (buffer.elements > 0) std::memset(buffer.data, 0, buffer.bytes());
}

}  // namespace ddprun
