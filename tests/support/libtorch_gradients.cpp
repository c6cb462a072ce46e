// Takes three steps of a small model with ddprun's DDP, for comparison with PyTorch's. Prints one
// line of JSON: this rank's batches, rank 0's initial state, and the gradients and state after each
// step, by name.
#include <ddprun/torch.hpp>
#include <ddprun/worker.hpp>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <cstdio>
#include <vector>

namespace {

using nlohmann::json;

constexpr int kSteps = 3;
constexpr std::int64_t kRows = 6;

json numbers(const torch::Tensor& tensor) {
  const auto flat = tensor.to(torch::kFloat64).contiguous();
  const auto* const data = flat.data_ptr<double>();
  return {{"shape", tensor.sizes().vec()},
          {"values", std::vector<double>(data, data + flat.numel())}};
}

json state_of(const torch::nn::Module& module) {
  json state = json::object();
  for (const auto& item : module.named_parameters()) state[item.key()] = numbers(item.value());
  for (const auto& item : module.named_buffers()) state[item.key()] = numbers(item.value());
  return state;
}

json gradients_of(const torch::nn::Module& module) {
  json gradients = json::object();
  for (const auto& item : module.named_parameters())
    gradients[item.key()] = numbers(item.value().grad());
  return gradients;
}

int run(const ddprun::WorkerEnv& env) {
  auto group = ddprun::ProcessGroup::create(env);
  torch::manual_seed(static_cast<std::uint64_t>(env.rank));
  torch::nn::Sequential network(torch::nn::Linear(5, 16), torch::nn::BatchNorm1d(16),
                                torch::nn::Tanh(), torch::nn::Linear(16, 3));
  ddprun::torch::DistributedDataParallel model(network, group);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  json result = {{"first", state_of(*network)}, {"steps", json::array()}};
  for (int step = 0; step < kSteps; ++step) {
    const auto input = torch::randn({kRows, 5});
    const auto target = torch::randn({kRows, 3});
    optimizer.zero_grad();
    torch::mse_loss(model.forward(input), target).backward();
    json one = {{"input", numbers(input)}, {"target", numbers(target)}};
    one["gradients"] = gradients_of(*network);
    optimizer.step();
    one["after"] = state_of(*network);
    result["steps"].push_back(std::move(one));
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace

int main() {
  return ddprun::run_worker(run);
}
