#include "worker_runtime/ddp/reducer_checks.hpp"

#include "worker_runtime/ddp/gradient_type.hpp"
#include "worker_runtime/ddp/rank_agreement.hpp"
#include "worker_runtime/ddp/torch_sequence.hpp"

namespace ddprun {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::usage, "gradient reducer: " + what);
}

std::string describe(const std::string& what, const Buffer& values,
                     std::span<const std::size_t> shape = {}) {
  std::string dimensions;
  for (const auto size : shape)
    dimensions += (dimensions.empty() ? "" : ", ") + std::to_string(size);
  if (shape.empty()) dimensions = std::to_string(values.elements);
  return what + " " + to_string(values.type) + "[" + dimensions + "]";
}

/// True if the dimensions, where there are any, make up the elements.
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
    refuse(what + " is " + describe(values.device) + ", and the group's backend reaches " +
           (device == nullptr ? "none" : "device " + std::to_string(device->index)));
  }
  if (values.data == nullptr && values.elements > 0) refuse(what + " has no memory");
}

void check_gradient(const std::string& what, const Parameter& parameter,
                    const ReducerOptions& options) {
  const Buffer& own = parameter.gradient;
  if (own.data == nullptr) return;
  check_memory("the gradient of " + what, own, &parameter.values.device);
  if (own.device != parameter.values.device) {
    refuse("the gradient of " + what + " is " + describe(own.device) + ", its values " +
           describe(parameter.values.device));
  }
  if (own.elements != parameter.values.elements) {
    refuse("the gradient of " + what + " has " + std::to_string(own.elements) +
           " elements, its values " + std::to_string(parameter.values.elements));
  }
  const DataType kept = gradient_type(parameter.values.type, options);
  const bool widens = kept == DataType::float32 && is_half(own.type);
  if (own.type != kept && !(widens && options.accumulate_in_float32)) {
    refuse("the gradient of " + what + " is " + to_string(own.type) + ", must be " +
           to_string(kept) + (options.accumulate_in_float32 ? " or a half type" : ""));
  }
}

void check_options(const ReducerOptions& options) {
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum) {
    refuse(std::string("op ") + to_string(options.op) + ", must be average or sum");
  }
  if (options.rebuild_buckets && options.find_unused_parameters && !options.static_graph) {
    refuse("rebuild_buckets and find_unused_parameters exclude each other: the order may change");
  }
  if (options.hook && !options.hook->start) refuse("the bucket hook has no start function");
  if (options.drift_check_steps < 0) refuse("drift_check_steps is negative");
  if (options.drift_check_steps > 0 && options.hook && !options.hook->keeps_ranks_equal) {
    refuse("drift_check_steps with bucket hook " + quoted(options.hook->name) +
           ", which lets the ranks drift apart");
  }
  if (options.uneven_inputs == UnevenInputs::average_over_active && options.hook &&
      !options.hook->keeps_ranks_equal) {
    refuse("average_over_active with bucket hook " + quoted(options.hook->name) +
           ", which does not average over all ranks");
  }
}

std::string describe(const ReducerOptions& options) {
  const auto yes = [](bool value) { return std::to_string(static_cast<int>(value)); };
  std::string text = "options first_bucket_bytes " + std::to_string(options.first_bucket_bytes) +
                     ", bucket_bytes_cap " + std::to_string(options.bucket_bytes_cap) + ", op " +
                     to_string(options.op) + ", broadcast_state " + yes(options.broadcast_state) +
                     ", find_unused_parameters " + yes(options.find_unused_parameters);
  // The rest is told only where it was chosen: most know of the few above.
  const auto add = [&](const char* name, bool is_chosen, const std::string& value) {
    if (is_chosen) text += std::string(", ") + name + " " + value;
  };
  add("pre_divide", options.pre_divide, "1");
  add("broadcast_buffers", options.broadcast_buffers, "1");
  add("static_graph", options.static_graph, "1");
  add("rebuild_buckets", options.rebuild_buckets, "1");
  add("accumulate_in_float32", options.accumulate_in_float32, "1");
  add("drift_check_steps", options.drift_check_steps > 0,
      std::to_string(options.drift_check_steps));
  add("hook", options.hook.has_value(), options.hook ? quoted(options.hook->name) : "");
  add("uneven_inputs", options.uneven_inputs != UnevenInputs::none,
      std::to_string(static_cast<int>(options.uneven_inputs)));
  return text;
}

/// What has to be equal on all ranks for their collectives to match.
std::vector<std::string> describe_all(std::span<const Parameter> parameters,
                                      std::span<const Buffer> state,
                                      const ReducerOptions& options) {
  std::vector<std::string> list = {describe(options)};
  for (const auto& parameter : parameters) {
    const auto what = "parameter " + quoted(parameter.name);
    list.push_back(describe(what, parameter.values, parameter.shape));
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    list.push_back(describe("state buffer " + std::to_string(i), state[i]));
  }
  return list;
}

}  // namespace

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

std::vector<Parameter> checked_parameters(const Device* device, std::vector<Parameter> parameters,
                                          std::span<const Buffer> state,
                                          const ReducerOptions& options) {
  check_options(options);
  for (auto& parameter : parameters) {
    const auto what = "parameter " + quoted(parameter.name);
    check_memory(what, parameter.values, device);
    if (parameter.values.device != parameters.front().values.device) {
      refuse(what + " is " + describe(parameter.values.device) + ", the first one " +
             describe(parameters.front().values.device));
    }
    if (!has_fitting_shape(parameter)) {
      refuse(describe(what, parameter.values, parameter.shape) + " has " +
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
    require_agreement(group, "gradient reducer", describe_all(parameters, state, options));
  }
}

}  // namespace ddprun
