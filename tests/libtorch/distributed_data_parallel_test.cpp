#include "tests/support/rank_threads.hpp"
#include <ddprun/torch.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <vector>

using ddprun::ProcessGroup;
using ddprun::test::run_ranks;
using ddprun::torch::DistributedDataParallel;

namespace {

/// What a program would write: two layers and a buffer.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, 16));
    second = register_module("second", torch::nn::Linear(16, 4));
  }

  torch::Tensor forward(const torch::Tensor& input) { return second(torch::tanh(first(input))); }

  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};
TORCH_MODULE(Net);

/// Rows of all ranks, of which each has as many.
struct Batch {
  torch::Tensor input;   ///< [rows, 8] float32
  torch::Tensor target;  ///< [rows, 4] float32

  Batch part(int rank, int ranks) const {
    return {input.chunk(ranks)[rank], target.chunk(ranks)[rank]};
  }
};

Batch make_batch(std::int64_t rows) {
  torch::manual_seed(7);
  return {torch::randn({rows, 8}), torch::randn({rows, 4})};
}

template <typename Model>
void backward(Model& model, const Batch& batch) {
  torch::mse_loss(model.forward(batch.input), batch.target).backward();
}

std::vector<torch::Tensor> gradients_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : module.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

/// Relative to the largest: sums over ranks are made in another order than sums over rows.
void check_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto largest = b[i].abs().max().item<double>();
    CHECK((a[i] - b[i]).abs().max().item<double>() <= 1e-6 * largest);
  }
}

}  // namespace

TEST_SUITE("distributed data parallel") {
  TEST_CASE("the gradients of any number of workers are those of one on the joined batch") {
    torch::manual_seed(1);
    Net alone;
    const auto batch = make_batch(24);
    backward(*alone, batch);
    const auto expected = gradients_of(*alone);
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      std::vector<Net> nets;
      for (int rank = 0; rank < ranks; ++rank) nets.emplace_back();
      {
        const torch::NoGradGuard no_graph;
        for (std::size_t i = 0; i < alone->parameters().size(); ++i)
          nets[0]->parameters()[i].copy_(alone->parameters()[i]);
      }
      run_ranks(ranks, [&](ProcessGroup& group) {
        Net& net = nets[static_cast<std::size_t>(group.rank())];
        DistributedDataParallel model(net, group);
        backward(model, batch.part(group.rank(), ranks));
        check_equal(gradients_of(*net), expected);
      });
    }
  }
}
