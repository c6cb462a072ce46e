#include <ddprun/torch.hpp>

#include <torch/torch.h>

#include <cstdio>

/// Vectors and their sums.
struct Sums : torch::data::Dataset<Sums> {
  torch::data::Example<> get(size_t index) override {
    const auto input = inputs[static_cast<int64_t>(index)];
    return {input, input.sum(0, /*keepdim=*/true)};
  }
  torch::optional<size_t> size() const override { return inputs.size(0); }

  torch::Tensor inputs = torch::randn({1000, 8});
};

int main() {
  const auto group = ddprun::torch::init();
  torch::manual_seed(1);
  Sums sums;
  torch::nn::Sequential net(torch::nn::Linear(8, 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
  ddprun::torch::DistributedDataParallel model(net, group);
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  ddprun::torch::DistributedSampler sampler(1000, group);
  auto loader = torch::data::make_data_loader(sums.map(torch::data::transforms::Stack<>()), sampler,
                                              torch::data::DataLoaderOptions().batch_size(20));
  for (int epoch = 0; epoch < 3; ++epoch) {
    sampler.set_epoch(epoch);
    torch::Tensor loss;
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      loss = torch::mse_loss(model.forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
    }
    std::printf("epoch %d: loss %.3f\n", epoch, loss.item<double>());
  }
}
