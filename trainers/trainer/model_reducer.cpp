#include "trainers/trainer/model_reducer.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace trainer {

namespace {

using ddprun::GradientReducer;
using ddprun::ProcessGroup;

ddprun::ReducerOptions reducer_options(const Options& options) {
  ddprun::ReducerOptions result;
  result.bucket_bytes_cap = static_cast<std::size_t>(options.bucket_cap_mb * (1 << 20));
  result.first_bucket_bytes = std::min(result.first_bucket_bytes, result.bucket_bytes_cap);
  result.op = ddprun::ReduceOp::sum;
  if (options.collectives == "pytorch") result.sequence = ddprun::CollectiveSequence::pytorch;
  return result;
}

/// Returns the parameters of each place, in order of definition.
std::vector<std::vector<Parameter*>> by_place(std::span<Parameter* const> parameters) {
  std::vector<std::vector<Parameter*>> parts;
  for (Parameter* parameter : parameters) {
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& one) {
      return one[0]->place.compute == parameter->place.compute;
    });
    if (part == parts.end()) {
      parts.push_back({parameter});
    } else {
      part->push_back(parameter);
    }
  }
  return parts;
}

/// A group can have one reducer at a time, so each further one gets a new group.
ProcessGroup another_group(const ProcessGroup& group) {
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ProcessGroup(group).new_group(ranks, "embedding").value();
}

GradientReducer make_reducer(const ProcessGroup& group, const std::vector<Parameter*>& own,
                             const Model& model, const Options& options) {
  std::vector<ddprun::Parameter> parameters;
  parameters.reserve(own.size());
  for (const Parameter* parameter : own) {
    parameters.push_back({parameter->name, parameter->master.buffer, parameter->shape});
  }
  std::vector<ddprun::Buffer> buffers;
  for (const StateBuffer* buffer : model.buffers()) {
    if (buffer->compute == own[0]->place.compute) buffers.push_back(buffer->values.buffer);
  }
  return GradientReducer(group, parameters, buffers, reducer_options(options));
}

}  // namespace

ModelReducer::ModelReducer(const ProcessGroup& group, Model& model, const Options& options)
    : slots_(model.parameters().size()) {
  const auto places = by_place(model.parameters());
  for (std::size_t part = 0; part < places.size(); ++part) {
    const std::vector<Parameter*>& own = places[part];
    const bool is_last = part + 1 == places.size();
    parts_.push_back({own[0]->place.compute, own,
                      make_reducer(is_last ? group : another_group(group), own, model, options)});
    for (std::size_t i = 0; i < own.size(); ++i) slots_[own[i]->index] = {part, i};
  }
  for (const Parameter* parameter : model.parameters()) publish(*parameter);
  attach_gradients();
}

void ModelReducer::attach_gradients() {
  for (Part& part : parts_) {
    for (std::size_t i = 0; i < part.parameters.size(); ++i) {
      part.parameters[i]->gradient = part.reducer.gradient(i);
    }
  }
}

void ModelReducer::zero_gradients() {
  for (Part& part : parts_) part.reducer.zero_gradients();
}

void ModelReducer::begin(bool synchronise) {
  for (Part& part : parts_) part.reducer.begin(synchronise);
  attach_gradients();  // buckets may have been rebuilt
}

void ModelReducer::ready(const Parameter& parameter) {
  const auto [which, index] = slots_[parameter.index];
  Part& part = parts_[which];
  if (void* const stream = part.compute->stream(); stream != nullptr) {
    part.reducer.ready(index, stream);
  } else {
    part.reducer.ready(index);
  }
}

std::vector<ddprun::StepTimeline> ModelReducer::finish() {
  std::vector<ddprun::StepTimeline> timelines;
  for (Part& part : parts_) {
    void* const stream = part.compute->stream();
    timelines.push_back(stream == nullptr ? part.reducer.finish() : part.reducer.finish(stream));
  }
  return timelines;
}

void ModelReducer::synchronise() {
  for (Part& part : parts_) {
    if (part.compute->stream() != nullptr) part.reducer.synchronise();
  }
}

}  // namespace trainer
