#include "trainers/gpt2/optimizer.hpp"

#include "trainers/compute/adamw_pace.hpp"

#include <cmath>
#include <span>
#include <utility>

namespace trainer::gpt2 {

using ddprun::DataType;

Optimizer::Optimizer(Compute& compute, Model& model)
    : compute_(compute),
      model_(model),
      squared_norm_(compute.allocate(1, DataType::float64)),
      pace_(compute.allocate(sizeof(AdamWPace) / sizeof(double), DataType::float64)) {
  for (const ModelParameter& parameter : model.parameters()) {
    const Buffer& values = parameter.values.buffer;
    const bool is_half = values.type == DataType::bfloat16;
    const DataType type = is_half ? DataType::float32 : values.type;
    State state = {compute.allocate(values.elements, type), compute.allocate(values.elements, type),
                   parameter.values};
    if (is_half) {
      state.master = compute.allocate(values.elements, type);
      compute.run(
          Convert{.input = values, .output = state.master.buffer, .elements = values.elements});
    }
    states_.push_back(std::move(state));
  }
}

void Optimizer::set_step(const Options& options, std::int64_t step) {
  const AdamWPace pace =
      adamw_pace(step, learning_rate(options, step), options.beta1, options.beta2);
  compute_.copy_in(std::as_bytes(std::span(&pace, 1)), pace_.buffer);
}

void Optimizer::update(const Options& options) {
  compute_.zero(squared_norm_.buffer);
  std::vector<AddSum> sums;
  for (const ModelParameter& parameter : model_.parameters()) {
    sums.push_back({.values = parameter.gradient,
                    .total = squared_norm_.buffer,
                    .elements = parameter.gradient.elements,
                    .squares = true});
  }
  compute_.run(sums);
  std::vector<AdamW> steps;
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const ModelParameter& parameter = model_.parameters()[index];
    const Buffer& values = parameter.values.buffer;
    const State& state = states_[index];
    const bool is_half = values.type == DataType::bfloat16;
    steps.push_back({.values = values,
                     .master = is_half ? state.master.buffer : Buffer{},
                     .gradient = parameter.gradient,
                     .mean = state.mean.buffer,
                     .square = state.square.buffer,
                     .squared_norm = squared_norm_.buffer,
                     .pace = pace_.buffer,
                     .elements = values.elements,
                     .beta1 = options.beta1,
                     .beta2 = options.beta2,
                     .weight_decay = parameter.spec.decays() ? options.weight_decay : 0,
                     .gradient_norm_max = options.gradient_norm_max});
  }
  compute_.run(steps);
}

double Optimizer::gradient_norm() {
  double squared = 0;
  compute_.copy_out(squared_norm_.buffer, std::as_writable_bytes(std::span(&squared, 1)));
  return std::sqrt(squared);
}

void Optimizer::publish() {
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const Buffer& values = model_.parameters()[index].values.buffer;
    if (values.type != DataType::bfloat16) continue;
    compute_.run(Convert{
        .input = states_[index].master.buffer, .output = values, .elements = values.elements});
  }
}

}  // namespace trainer::gpt2
