#include "trainers/trainer/device_batch.hpp"

#include <span>
#include <vector>

namespace trainer {

using ddprun::DataType;

namespace {

/// Reuses the array's memory, which grows as necessary.
template <typename Element>
Buffer copied_in(Compute& compute, std::vector<Element>& values, Array& memory) {
  const Buffer own = ddprun::as_buffer(values.data(), values.size());
  if (compute.device() == own.device) return own;
  if (memory.buffer.elements < values.size()) {
    memory = compute.allocate(values.size(), own.type);
  }
  const Buffer copy = memory.buffer.slice(0, values.size());
  compute.copy_in(std::as_bytes(std::span(values)), copy);
  return copy;
}

}  // namespace

void DeviceBatch::load(Batch& batch) {
  const Place& place = places_.rest;
  Compute& compute = *place.compute;
  inputs.rows = batch.rows;
  inputs.columns = batch.features;
  if (batch.rows == 0) return;
  if (batch.as_tokens) {
    const Buffer tokens = copied_in(*places_.embedding.compute, batch.tokens, token_memory_);
    inputs.memory = {tokens, token_memory_.hold};
  } else if (place.type == DataType::float32) {
    const Buffer values = copied_in(compute, batch.inputs, exact_inputs_);
    inputs.memory = {values, exact_inputs_.hold};
  } else {
    const Buffer exact = copied_in(compute, batch.inputs, exact_inputs_);
    inputs.reshape(compute, place.type, batch.rows, batch.features);
    compute.run(Convert{.input = exact, .output = inputs.buffer(), .elements = inputs.elements()});
  }
  labels = copied_in(compute, batch.labels, label_memory_);
  targets = copied_in(compute, batch.targets, target_memory_);
}

}  // namespace trainer
