#include "trainers/resnet50_pipeline/resnet.hpp"

#include <torch/nn.h>
#include <torch/utils.h>

namespace trainer::resnet50 {

namespace {

using torch::Tensor;
using torch::nn::Sequential;

/// Ratio of a bottleneck's output channels to its inner channels.
constexpr std::int64_t kExpansion = 4;

torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t kernel,
                              std::int64_t stride) {
  torch::nn::Conv2d made(
      torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(made->weight, 0, torch::kFanOut, torch::kReLU);
  return made;
}

/// A 3x3 convolution between two 1x1 ones, with a residual connection.
struct BottleneckImpl : torch::nn::Module {
  BottleneckImpl(std::int64_t from, std::int64_t width, std::int64_t stride) {
    const std::int64_t to = width * kExpansion;
    body = register_module(
        "body",
        Sequential(convolution(from, width, 1, 1), torch::nn::BatchNorm2d(width), torch::nn::ReLU(),
                   convolution(width, width, 3, stride), torch::nn::BatchNorm2d(width),
                   torch::nn::ReLU(), convolution(width, to, 1, 1), torch::nn::BatchNorm2d(to)));
    if (from == to && stride == 1) return;
    shortcut = register_module(
        "shortcut", Sequential(convolution(from, to, 1, stride), torch::nn::BatchNorm2d(to)));
  }

  Tensor forward(const Tensor& input) {
    const Tensor around = shortcut.is_empty() ? input : shortcut->forward(input);
    return torch::relu(body->forward(input) + around);
  }

  Sequential body{nullptr};
  Sequential shortcut{nullptr};
};
TORCH_MODULE(Bottleneck);

/// Adds a layer of the paper's table. LibTorch does not nest Sequentials.
void add_bottlenecks(Sequential& model, std::int64_t from, std::int64_t width, int count,
                     std::int64_t stride) {
  model->push_back(Bottleneck(from, width, stride));
  for (int i = 1; i < count; ++i) model->push_back(Bottleneck(width * kExpansion, width, 1));
}

void add_first_half(Sequential& model) {
  model->push_back(convolution(3, 64, 7, 2));
  model->push_back(torch::nn::BatchNorm2d(64));
  model->push_back(torch::nn::ReLU());
  model->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
  add_bottlenecks(model, 64, 64, 3, 1);
  add_bottlenecks(model, 256, 128, 4, 2);
}

void add_second_half(Sequential& model, std::int64_t classes) {
  add_bottlenecks(model, 512, 256, 6, 2);
  add_bottlenecks(model, 1024, 512, 3, 2);
  model->push_back(torch::nn::AdaptiveAvgPool2d(1));
  model->push_back(torch::nn::Flatten());
  model->push_back(torch::nn::Linear(512 * kExpansion, classes));
}

}  // namespace

Sequential make_stage(int stage, int stages, std::int64_t classes, std::uint64_t seed) {
  torch::manual_seed(seed);
  // Always creates both, so that the random values of the second half do not depend on `stages`.
  Sequential first;
  Sequential second;
  add_first_half(first);
  add_second_half(stages == 1 ? first : second, classes);
  return stage == 0 ? first : second;
}

}  // namespace trainer::resnet50
