#include "worker_runtime/ddp/capture_check.hpp"

#include <algorithm>

namespace ddprun {

namespace {

bool is_on_host(const Buffer& buffer) {
  return buffer.elements > 0 && buffer.device.kind == Device::Kind::cpu;
}

std::string needs_host(const std::string& option, const std::string& what) {
  return option + " requires the host to " + what +
         " in each step; disable it, or do not capture the step";
}

}  // namespace

std::string why_not_captured(const ReducerOptions& options, std::span<const Buffer> state,
                             const ReducerProgress& progress) {
  if (options.hook) return needs_host("the bucket hook " + options.hook->name, "run it");
  if (options.find_unused_parameters && !options.static_graph)
    return needs_host("find_unused_parameters", "exchange which parameters were used");
  if (options.uneven_inputs != UnevenInputs::none)
    return needs_host("uneven_inputs", "exchange which ranks have input");
  if (options.drift_check_steps != 0) return needs_host("drift_check_steps", "compare parameters");
  if (options.broadcast_buffers && std::any_of(state.begin(), state.end(), is_on_host))
    return needs_host("broadcast_buffers", "send the buffers in its memory");
  const bool moves = options.rebuild_buckets && !progress.has_rebuilt;
  if (progress.steps > 0 && progress.knows_counts && !moves) return {};
  return std::string("buckets and communicator do not have their final places before ") +
         (options.rebuild_buckets ? "they have been rebuilt" : "the first step has ended") +
         " (run a step or two without capture first)";
}

}  // namespace ddprun
