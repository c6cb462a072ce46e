// Uses each public header of ddprun::libtorch that the documented program does not.
#include <ddprun/torch/checkpoint.hpp>
#include <ddprun/torch/data_parallel.hpp>
#include <ddprun/torch/pipeline.hpp>

#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(8, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1));
  const auto input = torch::randn({6, 8});
  const auto target = input.sum(1, /*keepdim=*/true);
  const ddprun::torch::MeanLoss mean_loss = [](const at::Tensor& output, const at::Tensor& wanted) {
    return torch::mse_loss(output, wanted);
  };
  ddprun::torch::DataParallel threads(net, {.devices = {at::kCPU, at::kCPU}});
  const auto by_threads = threads.train(input, target, mean_loss).item<double>();

  ddprun::Checkpoint checkpoint;
  ddprun::torch::put_module(checkpoint, "net", *net);
  torch::nn::Sequential other(torch::nn::Linear(8, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1));
  ddprun::torch::get_module(checkpoint, "net", *other);

  const auto group = ddprun::ProcessGroup::create_in_process(1).front();
  ddprun::torch::Pipeline stages([&](const at::Tensor& rows) { return other->forward(rows); },
                                 group, {.split_size = 2});
  const auto by_stages = stages.train({6, input, target}, mean_loss).item<double>();
  std::printf("difference %.6f\n", by_threads - by_stages);
}
