#include "worker_runtime/ddp/capture_check.hpp"

#include <algorithm>

namespace ddprun {

namespace {

bool is_on_host(const Buffer& buffer) {
  return buffer.elements > 0 && buffer.device.kind == Device::Kind::cpu;
}

std::string of_hosts(const std::string& option, const std::string& what) {
  return option + " has the hosts " + what + " in each step (do without it, or do not capture)";
}

}  // namespace

std::string why_not_captured(const ReducerOptions& options, std::span<const Buffer> state,
                             const ReducerProgress& progress) {
  if (options.hook) return of_hosts("the bucket hook " + options.hook->name, "do something");
  if (options.find_unused_parameters && !options.static_graph)
    return of_hosts("find_unused_parameters", "agree on what was used");
  if (options.uneven_inputs != UnevenInputs::none)
    return of_hosts("uneven_inputs", "agree on which ranks have input");
  if (options.drift_check_steps != 0) return of_hosts("drift_check_steps", "compare parameters");
  if (options.broadcast_buffers && std::any_of(state.begin(), state.end(), is_on_host))
    return of_hosts("broadcast_buffers", "send those in the memory of the CPU");
  const bool moves = options.rebuild_buckets && !progress.has_rebuilt;
  if (progress.steps > 0 && progress.knows_counts && !moves) return {};
  return std::string("buckets and communicator do not have their final places before ") +
         (options.rebuild_buckets ? "they have been rebuilt" : "the first step has ended") +
         " (run a step or two without capture first)";
}

}  // namespace ddprun
