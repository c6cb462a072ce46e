// A module with a buffer, its replicas and its data, for tests of DataParallel. LibTorch's seed is
// global: one thread must create them.
#pragma once

#include <ddprun/torch/data_parallel.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace ddprun::test {

/// With a buffer that forward passes change.
struct NormedNetImpl : ::torch::nn::Cloneable<NormedNetImpl> {
  NormedNetImpl() { reset(); }
  void reset() override {
    first = register_module("first", ::torch::nn::Linear(6, 8));
    norm = register_module("norm", ::torch::nn::BatchNorm1d(8));
    second = register_module("second", ::torch::nn::Linear(8, 3));
  }
  ::torch::Tensor forward(const ::torch::Tensor& input) {
    ::torch::Tensor hidden = ::torch::tanh(first(input));
    if (has_norm) hidden = norm(hidden);
    return second(hidden);
  }

  ::torch::nn::Linear first{nullptr};
  ::torch::nn::BatchNorm1d norm{nullptr};
  ::torch::nn::Linear second{nullptr};
  bool has_norm = false;
};

/// TORCH_MODULE uses torch::, which is ddprun::torch here.
struct NormedNet : ::torch::nn::ModuleHolder<NormedNetImpl> {
  using ::torch::nn::ModuleHolder<NormedNetImpl>::ModuleHolder;
  using Impl = NormedNetImpl;
};

inline ::torch::Tensor mean_loss(const ::torch::Tensor& output, const ::torch::Tensor& target) {
  return ::torch::mse_loss(output, target);
}

inline ::ddprun::torch::DataParallelOptions replicas(int count) {
  return {.devices = std::vector<at::Device>(static_cast<std::size_t>(count), ::torch::kCPU)};
}

inline NormedNet make_net() {
  ::torch::manual_seed(5);
  return NormedNet();
}

struct RowBatch {
  ::torch::Tensor input;
  ::torch::Tensor target;
};

inline RowBatch make_rows(std::int64_t rows) {
  ::torch::manual_seed(6);
  return {::torch::randn({rows, 6}), ::torch::randn({rows, 3})};
}

inline ::torch::Tensor gradients_of(NormedNet& net) {
  std::vector<::torch::Tensor> all;
  for (const auto& parameter : net->parameters()) {
    if (parameter.grad().defined()) all.push_back(parameter.grad().flatten());
  }
  return ::torch::cat(all);
}

inline void check_close(const ::torch::Tensor& a, const ::torch::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  CHECK((a - b).abs().max().item<double>() <= 1e-6 * b.abs().max().item<double>());
}

}  // namespace ddprun::test
