#include "worker_runtime/ddp/own_gradients.hpp"

#include "worker_runtime/collectives/wide_types.hpp"

#include <algorithm>
#include <array>

namespace ddprun {

void add_widened(const Buffer& from, const Buffer& to) {
  if (from.type == DataType::float32) {
    const auto* terms = static_cast<const float*>(from.data);
    auto* sums = static_cast<float*>(to.data);
    for (std::size_t i = 0; i < from.elements; ++i) sums[i] += terms[i];
    return;
  }
  std::array<float, 1024> wide;  // fits into the L1 cache
  for (std::size_t first = 0; first < from.elements; first += wide.size()) {
    const std::size_t count = std::min(wide.size(), from.elements - first);
    collectives::widen(from.type, ReduceOp::sum, from.slice(first, count).data, wide.data(), count);
    auto* sums = static_cast<float*>(to.data) + first;
    for (std::size_t i = 0; i < count; ++i) sums[i] += wide[i];
  }
}

}  // namespace ddprun
