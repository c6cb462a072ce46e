#include "trainers/gpt2/activations.hpp"

namespace trainer::gpt2 {

Activations make_activations(Compute& compute, const Shape& shape, std::size_t sequences,
                             ddprun::DataType type) {
  using ddprun::DataType;
  const DataType statistics = type == DataType::float64 ? DataType::float64 : DataType::float32;
  const std::size_t rows = sequences * shape.context;
  const auto channels = [&](std::size_t times) {
    return compute.allocate(rows * times * shape.channels, type);
  };
  const auto statistic = [&] { return compute.allocate(rows, statistics); };
  const auto normalised = [&] { return Normalised{channels(1), statistic(), statistic()}; };
  Activations all;
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    all.layers.push_back({.residual = channels(1),
                          .norm1 = normalised(),
                          .projections = channels(3),
                          .attended = channels(1),
                          .log_sum = compute.allocate(rows * shape.heads, statistics),
                          .middle = channels(1),
                          .norm2 = normalised(),
                          .hidden = channels(4),
                          .activated = channels(4)});
  }
  all.residual = channels(1);
  all.final_norm = normalised();
  all.logits = compute.allocate(rows * shape.padded_vocabulary(), type);
  all.losses = statistic();
  all.branch = channels(1);
  all.residual_gradient = channels(1);
  all.normalised_gradient = channels(1);
  all.wide_gradient = channels(4);
  return all;
}

}  // namespace trainer::gpt2
