#include "worker_runtime/ddp/own_gradients.hpp"

#include "worker_runtime/collectives/wide_types.hpp"

#include <algorithm>
#include <array>

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

}  // namespace ddprun
