// Launches of all operations as the table of a CudaCompute. What kernels use must be included
// before this.
#pragma once

#include "trainers/gpt2/cuda/attention_launches.hpp"
#include "trainers/gpt2/cuda/network_launches.hpp"
#include "trainers/gpt2/cuda/piece_launches.hpp"
#include "trainers/gpt2/cuda/sum_launches.hpp"

namespace trainer::cuda {

template <typename Launch, typename... Operations>
constexpr void fill_table(std::tuple<Kernel<Operations>...>& table) {
  table = {[](const Operations& operation, const Place& place) {
    return start(operation, place.workspace, Launch{place.stream});
  }...};
}

/// Launch is constructed from a stream, and called as described in launches.hpp.
template <typename Launch>
KernelCalls make_kernel_table() {
  KernelCalls table;
  fill_table<Launch>(table);
  return table;
}

}  // namespace trainer::cuda
