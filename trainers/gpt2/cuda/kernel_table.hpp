// All operations' launches as the table that a CudaCompute is given. Include what kernels use
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

/// Launch is made from a stream, and called as launches.hpp says.
template <typename Launch>
KernelCalls make_kernel_table() {
  KernelCalls table;
  fill_table<Launch>(table);
  return table;
}

}  // namespace trainer::cuda
