// A small model and its data, for tests of DDP with LibTorch's modules. LibTorch's seed is global:
// one thread must create them before ranks run.
#pragma once

#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace ddprun::test {

struct NetImpl : ::torch::nn::Module {
  explicit NetImpl(int seed = 1) {
    ::torch::manual_seed(seed);
    first = register_module("first", ::torch::nn::Linear(8, 16));
    second = register_module("second", ::torch::nn::Linear(16, 4));
  }

  ::torch::Tensor forward(const ::torch::Tensor& input) {
    return second(::torch::tanh(first(input)));
  }

  ::torch::nn::Linear first{nullptr};
  ::torch::nn::Linear second{nullptr};
};

/// TORCH_MODULE(Net) names `torch`, which is ddprun::torch here once <ddprun/torch.hpp> is
/// included.
struct Net : ::torch::nn::ModuleHolder<NetImpl> {
  using ::torch::nn::ModuleHolder<NetImpl>::ModuleHolder;
  using Impl = NetImpl;
};

/// One for each rank, with the same parameters.
inline std::vector<Net> make_nets(int ranks) {
  std::vector<Net> nets;
  for (int rank = 0; rank < ranks; ++rank) nets.emplace_back(1);
  return nets;
}

/// Rows of all ranks, an equal number for each.
struct Batch {
  ::torch::Tensor input;   ///< [rows, 8] float32
  ::torch::Tensor target;  ///< [rows, 4] float32

  Batch part(int index, int parts) const {
    return {input.chunk(parts)[static_cast<std::size_t>(index)],
            target.chunk(parts)[static_cast<std::size_t>(index)]};
  }
};

inline Batch make_batch(std::int64_t rows) {
  ::torch::manual_seed(7);
  return {::torch::randn({rows, 8}), ::torch::randn({rows, 4})};
}

template <typename Model>
void backward(Model& model, const Batch& batch) {
  ::torch::mse_loss(model.forward(batch.input), batch.target).backward();
}

inline std::vector<::torch::Tensor> gradients_of(const ::torch::nn::Module& module) {
  std::vector<::torch::Tensor> gradients;
  for (const auto& parameter : module.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

/// Gradients of a single worker with the whole batch.
inline std::vector<::torch::Tensor> gradients_alone(const Batch& batch) {
  Net alone(1);
  backward(*alone, batch);
  return gradients_of(*alone);
}

/// Relative to the largest value: sums over ranks and sums over rows have different orders.
inline void check_equal(const std::vector<::torch::Tensor>& a,
                        const std::vector<::torch::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto largest = b[i].abs().max().item<double>();
    CHECK((a[i] - b[i]).abs().max().item<double>() <= 1e-6 * largest);
  }
}

/// One of these for each rank.
template <typename Value>
Value& of(std::vector<Value>& values, const ProcessGroup& group) {
  return values[static_cast<std::size_t>(group.rank())];
}

}  // namespace ddprun::test
