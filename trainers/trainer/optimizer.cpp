#include "trainers/trainer/optimizer.hpp"

namespace trainer {

namespace {

std::vector<StateBuffer> zeros_like(std::span<Parameter* const> parameters) {
  std::vector<StateBuffer> zeros;
  for (const Parameter* parameter : parameters) {
    zeros.push_back(make_state(parameter->place, parameter->elements(), 0));
  }
  return zeros;
}

void append_addresses(std::vector<StateBuffer>& buffers, std::vector<StateBuffer*>& addresses) {
  for (StateBuffer& buffer : buffers) addresses.push_back(&buffer);
}

/// Returns the master copy for operations; empty if the values themselves are trained.
Buffer master_of(const Parameter& parameter) {
  const Buffer& master = parameter.master.buffer;
  return master.data == parameter.values.buffer.data ? Buffer{} : master;
}

/// Runs operation_of(p) for all parameters p, in one call per place.
template <typename OperationOf>
void run_all(std::span<Parameter* const> parameters, const OperationOf& operation_of) {
  for (std::size_t p = 0; p < parameters.size();) {
    Compute* const compute = parameters[p]->place.compute;
    std::vector<decltype(operation_of(p))> operations;
    for (; p < parameters.size() && parameters[p]->place.compute == compute; ++p) {
      operations.push_back(operation_of(p));
    }
    compute->run(operations);
  }
}

}  // namespace

SgdOptimizer::SgdOptimizer(std::span<Parameter* const> parameters, float momentum)
    : momentum_(momentum) {
  if (momentum != 0) velocity_ = zeros_like(parameters);
}

void SgdOptimizer::update(std::span<Parameter* const> parameters, std::int64_t,
                          float learning_rate) {
  run_all(parameters, [&](std::size_t p) {
    const Parameter& parameter = *parameters[p];
    return Sgd{.values = parameter.values.buffer,
               .master = master_of(parameter),
               .gradient = parameter.gradient,
               .velocity = momentum_ == 0 ? Buffer{} : velocity_[p].values.buffer,
               .elements = parameter.elements(),
               .learning_rate = static_cast<double>(learning_rate),
               .momentum = static_cast<double>(momentum_)};
  });
}

std::vector<StateBuffer*> SgdOptimizer::state() {
  std::vector<StateBuffer*> all;
  append_addresses(velocity_, all);
  return all;
}

AdamOptimizer::AdamOptimizer(std::span<Parameter* const> parameters)
    : mean_(zeros_like(parameters)), square_(zeros_like(parameters)) {}

/// AdamW's step without weight decay and gradient clipping.
void AdamOptimizer::update(std::span<Parameter* const> parameters, std::int64_t step,
                           float learning_rate) {
  run_all(parameters, [&](std::size_t p) {
    const Parameter& parameter = *parameters[p];
    return AdamW{.values = parameter.values.buffer,
                 .master = master_of(parameter),
                 .gradient = parameter.gradient,
                 .mean = mean_[p].values.buffer,
                 .square = square_[p].values.buffer,
                 .squared_norm = {},
                 .elements = parameter.elements(),
                 .step = step,
                 .learning_rate = static_cast<double>(learning_rate),
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-8};
  });
}

std::vector<StateBuffer*> AdamOptimizer::state() {
  std::vector<StateBuffer*> all;
  append_addresses(mean_, all);
  append_addresses(square_, all);
  return all;
}

}  // namespace trainer
