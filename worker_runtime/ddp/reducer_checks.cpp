#include "worker_runtime/ddp/reducer_checks.hpp"

#include "worker_runtime/ddp/gradient_type.hpp"
#include "worker_runtime/ddp/torch_sequence.hpp"
#include <ddprun/rank_agreement.hpp>

#include <map>
#include <string_view>

namespace ddprun {

namespace {

const char* to_string(UnevenInputs policy) {
  switch (policy) {
    case UnevenInputs::none:
      return "none";
    case UnevenInputs::average_over_all:
      return "average_over_all";
    case UnevenInputs::average_over_active:
      return "average_over_active";
    case UnevenInputs::throw_early:
      return "throw_early";
  }
  return "unknown";
}

std::string describe(const Buffer& values, std::span<const std::size_t> shape = {}) {
  std::string dimensions;
  for (const auto size : shape)
    dimensions += (dimensions.empty() ? "" : ", ") + std::to_string(size);
  if (shape.empty()) dimensions = std::to_string(values.elements);
  return std::string(to_string(values.type)) + "[" + dimensions + "]";
}

/// Returns true if the shape is empty or its product is the number of elements.
bool has_fitting_shape(const Parameter& parameter) {
  if (parameter.shape.empty()) return true;
  std::size_t left = parameter.values.elements;
  for (const auto size : parameter.shape) {
    if (size == 0) return parameter.values.elements == 0;
    if (left % size != 0) return false;
    left /= size;
  }
  return left == 1 || parameter.values.elements == 0;
}

std::string describe(const Device& device) {
  if (device.kind == Device::Kind::cpu) return "in the memory of the CPU";
  return "on CUDA device " + std::to_string(device.index);
}

void check_memory(const std::string& what, const Buffer& values, const Device* device) {
  const bool is_reached = device != nullptr && values.device == *device;
  if (values.device.kind != Device::Kind::cpu && !is_reached) {
    refuse_reducer(what + " is " + describe(values.device) + ", and the group's backend reaches " +
                   (device == nullptr ? "none" : "device " + std::to_string(device->index)));
  }
  if (values.data == nullptr && values.elements > 0) refuse_reducer(what + " has no memory");
}

void check_gradient(const std::string& what, const Parameter& parameter,
                    const ReducerOptions& options) {
  const Buffer& own = parameter.gradient;
  if (own.data == nullptr) return;
  check_memory("the gradient of " + what, own, &parameter.values.device);
  if (own.device != parameter.values.device) {
    refuse_reducer("the gradient of " + what + " is " + describe(own.device) + ", its values " +
                   describe(parameter.values.device));
  }
  if (own.elements != parameter.values.elements) {
    refuse_reducer("the gradient of " + what + " has " + std::to_string(own.elements) +
                   " elements, its values " + std::to_string(parameter.values.elements));
  }
  const DataType kept = gradient_type(parameter.values.type, options);
  const bool widens = kept == DataType::float32 && is_half(own.type);
  if (own.type != kept && !(widens && options.accumulate_in_float32)) {
    refuse_reducer("the gradient of " + what + " is " + to_string(own.type) + ", must be " +
                   to_string(kept) + (options.accumulate_in_float32 ? " or a half type" : ""));
  }
}

/// Errors name a parameter only by its name.
void check_names(std::span<const Parameter> parameters) {
  std::map<std::string_view, std::size_t> indices;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    if (name.empty()) refuse_reducer("parameter " + std::to_string(i) + " has no name");
    const auto [known, is_new] = indices.try_emplace(name, i);
    if (is_new) continue;
    refuse_reducer("parameters " + std::to_string(known->second) + " and " + std::to_string(i) +
                   " have the name " + double_quoted(name) + "; each needs its own");
  }
}

void check_options(const ReducerOptions& options) {
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum) {
    refuse_reducer(std::string("op ") + to_string(options.op) + ", must be average or sum");
  }
  if (options.rebuild_buckets && options.find_unused_parameters && !options.static_graph) {
    refuse_reducer(
        "rebuild_buckets and find_unused_parameters exclude each other: the order may change");
  }
  if (options.hook && !options.hook->start) refuse_reducer("the bucket hook has no start function");
  if (options.drift_check_steps < 0) refuse_reducer("drift_check_steps is negative");
  if (options.drift_check_steps > 0 && options.hook && !options.hook->keeps_ranks_equal) {
    refuse_reducer("drift_check_steps with bucket hook " + double_quoted(options.hook->name) +
                   ", which lets the ranks drift apart");
  }
  if (options.uneven_inputs == UnevenInputs::average_over_active && options.hook &&
      !options.hook->keeps_ranks_equal) {
    refuse_reducer("average_over_active with bucket hook " + double_quoted(options.hook->name) +
                   ", which does not average over all ranks");
  }
}

std::vector<Fact> facts_of(const ReducerOptions& options) {
  std::vector<Fact> facts;
  const auto add = [&](const char* name, const std::string& value) {
    facts.push_back({std::string("option ") + name, value});
  };
  const auto yes = [](bool value) { return std::string(value ? "true" : "false"); };
  add("first_bucket_bytes", std::to_string(options.first_bucket_bytes));
  add("bucket_bytes_cap", std::to_string(options.bucket_bytes_cap));
  add("op", to_string(options.op));
  add("pre_divide", yes(options.pre_divide));
  add("broadcast_state", yes(options.broadcast_state));
  add("broadcast_buffers", yes(options.broadcast_buffers));
  add("find_unused_parameters", yes(options.find_unused_parameters));
  add("static_graph", yes(options.static_graph));
  add("rebuild_buckets", yes(options.rebuild_buckets));
  add("accumulate_in_float32", yes(options.accumulate_in_float32));
  add("drift_check_steps", std::to_string(options.drift_check_steps));
  add("hook", options.hook ? double_quoted(options.hook->name) : "none");
  add("uneven_inputs", to_string(options.uneven_inputs));
  return facts;
}

/// Returns the facts that must be equal on all ranks for their collectives to match.
std::vector<Fact> facts_of(std::span<const Parameter> parameters, std::span<const Buffer> state,
                           const ReducerOptions& options) {
  std::vector<Fact> facts = facts_of(options);
  for (const auto& parameter : parameters) {
    facts.push_back({"parameter " + double_quoted(parameter.name),
                     describe(parameter.values, parameter.shape)});
  }
  for (std::size_t i = 0; i < state.size(); ++i)
    facts.push_back({"state buffer " + std::to_string(i), describe(state[i])});
  return facts;
}

}  // namespace

void refuse_reducer(const std::string& problem) {
  throw Error(Errc::usage, "GradientReducer: " + problem);
}

std::string double_quoted(const std::string& name) {
  return "\"" + name + "\"";
}

std::vector<Parameter> checked_parameters(const Device* device, std::vector<Parameter> parameters,
                                          std::span<const Buffer> state,
                                          const ReducerOptions& options) {
  check_options(options);
  check_names(parameters);
  for (auto& parameter : parameters) {
    const auto what = "parameter " + double_quoted(parameter.name);
    check_memory(what, parameter.values, device);
    if (parameter.values.device != parameters.front().values.device) {
      refuse_reducer(what + " is " + describe(parameter.values.device) + ", the first one " +
                     describe(parameters.front().values.device));
    }
    if (!has_fitting_shape(parameter)) {
      refuse_reducer(what + " " + describe(parameter.values, parameter.shape) + " has " +
                     std::to_string(parameter.values.elements) + " elements");
    }
    check_gradient(what, parameter, options);
    if (parameter.shape.empty()) parameter.shape = {parameter.values.elements};
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    check_memory("state buffer " + std::to_string(i), state[i], device);
  }
  return parameters;
}

void verify_ranks(ProcessGroup& group, std::span<const Parameter> parameters,
                  std::span<const Buffer> state, const ReducerOptions& options) {
  if (options.sequence == CollectiveSequence::pytorch) {
    verify_as_torch(group, parameters);
  } else {
    require_agreement(group, "GradientReducer", facts_of(parameters, state, options));
  }
}

}  // namespace ddprun
