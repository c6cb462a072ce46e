// Small language models with random parameters, sentences and memory for their gradients.
#pragma once

#include "tests/support/device_arrays.hpp"
#include "trainers/gpt2/model.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace ddprun::test {

inline constexpr trainer::gpt2::Shape kTinyShape = {
    .layers = 2, .heads = 2, .channels = 8, .context = 5, .vocabulary = 11};

/// Sets the parameters to random values, including normalisations, and gradients to zero.
inline std::vector<trainer::Array> fill_randomly(trainer::Compute& compute,
                                                 trainer::gpt2::Model& model,
                                                 std::mt19937& random) {
  std::vector<trainer::Array> gradients;
  for (auto& parameter : model.parameters()) {
    const Buffer& values = parameter.values.buffer;
    const trainer::Array exact =
        on_device(compute, random_doubles(values.elements, random), values.type);
    compute.run(
        trainer::Convert{.input = exact.buffer, .output = values, .elements = values.elements});
    gradients.push_back(compute.allocate(values.elements, values.type));
    parameter.gradient = gradients.back().buffer;
  }
  compute.wait();
  return gradients;
}

inline std::vector<std::int32_t> random_tokens(std::size_t count, std::size_t vocabulary,
                                               std::mt19937& random) {
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % vocabulary);
  return tokens;
}

/// Returns the scaled loss of one forward pass.
inline double loss_of(trainer::Compute& compute, trainer::gpt2::Model& model,
                      const std::vector<std::int32_t>& tokens,
                      const std::vector<std::int32_t>& targets, double scale) {
  const trainer::Array total = compute.allocate(1, DataType::float64);
  model.forward({on_device(compute, tokens), on_device(compute, targets)}, total.buffer, scale);
  return scale * from_device(compute, total.buffer)[0];
}

}  // namespace ddprun::test
