#include "trainers/trainer/optimizer.hpp"

#include <cmath>

namespace trainer {

namespace {

std::vector<StateBuffer> zeros_like(std::span<Parameter* const> parameters) {
  std::vector<StateBuffer> zeros;
  for (const Parameter* parameter : parameters) zeros.emplace_back(parameter->values.size());
  return zeros;
}

void append_addresses(std::vector<StateBuffer>& buffers, std::vector<StateBuffer*>& addresses) {
  for (StateBuffer& buffer : buffers) addresses.push_back(&buffer);
}

}  // namespace

Sgd::Sgd(std::span<Parameter* const> parameters, float momentum) : momentum_(momentum) {
  if (momentum != 0) velocity_ = zeros_like(parameters);
}

void Sgd::update(std::span<Parameter* const> parameters, std::int64_t, float learning_rate) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    float* values = parameters[p]->values.data();
    const std::span<const float> gradient = parameters[p]->gradient;
    if (momentum_ == 0) {
      for (std::size_t i = 0; i < gradient.size(); ++i) values[i] -= learning_rate * gradient[i];
      continue;
    }
    float* velocity = velocity_[p].data();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      velocity[i] = momentum_ * velocity[i] + gradient[i];
      values[i] -= learning_rate * velocity[i];
    }
  }
}

std::vector<StateBuffer*> Sgd::state() {
  std::vector<StateBuffer*> all;
  append_addresses(velocity_, all);
  return all;
}

Adam::Adam(std::span<Parameter* const> parameters)
    : mean_(zeros_like(parameters)), square_(zeros_like(parameters)) {}

void Adam::update(std::span<Parameter* const> parameters, std::int64_t step, float learning_rate) {
  constexpr float kMeanDecay = 0.9F;
  constexpr float kSquareDecay = 0.999F;
  constexpr float kEpsilon = 1e-8F;
  // Both means start at zero; these undo that bias. In double: 0.999^step is near 1 at first.
  const auto exponent = static_cast<double>(step);
  const auto mean_correction = static_cast<float>(1 - std::pow(0.9, exponent));
  const auto square_correction = static_cast<float>(std::sqrt(1 - std::pow(0.999, exponent)));
  const float rate = learning_rate / mean_correction;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    float* values = parameters[p]->values.data();
    float* mean = mean_[p].data();
    float* square = square_[p].data();
    const std::span<const float> gradient = parameters[p]->gradient;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      mean[i] += (1 - kMeanDecay) * (gradient[i] - mean[i]);
      square[i] = kSquareDecay * square[i] + (1 - kSquareDecay) * gradient[i] * gradient[i];
      values[i] -= rate * mean[i] / (std::sqrt(square[i]) / square_correction + kEpsilon);
    }
  }
}

std::vector<StateBuffer*> Adam::state() {
  std::vector<StateBuffer*> all;
  append_addresses(mean_, all);
  append_addresses(square_, all);
  return all;
}

}  // namespace trainer
